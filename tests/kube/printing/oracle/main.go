// SPDX-License-Identifier: Apache-2.0

// Program oracle answers what kubectl prints: its own printers of jsonpath and custom columns and its
// own sorting, over the objects of a file as an API server sends them. Left out are flags and HTTP.
//
// Usage: oracle OBJECTS.json < cases. The file is a List; a case is one JSON object a line with "form"
// (jsonpath, custom-columns, sort-by) and "text". Standard output: the same with "out", or "error".
// "unordered" is true where Go's maps gave another order the next time.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/kubectl/pkg/cmd/get"
)

const (
	longestLine = 1 << 20
	tries       = 30 // a map of two comes out the same 30 times in a row once in a milliard
)

func printPath(list *unstructured.UnstructuredList, text string) (string, error) {
	path := jsonpath.New("out").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err := path.Execute(&out, list.UnstructuredContent())
	return out.String(), err
}

func printColumns(list *unstructured.UnstructuredList, text string) (string, error) {
	printer, err := get.NewCustomColumnsPrinterFromSpec(text, unstructured.UnstructuredJSONScheme, false)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = printer.PrintObj(list, &out)
	return out.String(), err
}

// The values that the objects are sorted by, in their order.
func printSorted(list *unstructured.UnstructuredList, text string) (string, error) {
	var objects []runtime.Object
	for i := range list.Items {
		objects = append(objects, list.Items[i].DeepCopy())
	}
	if _, err := get.SortObjects(unstructured.UnstructuredJSONScheme, objects, text); err != nil {
		return "", err
	}
	relaxed, err := get.RelaxedJSONPathExpression(text)
	if err != nil {
		return "", err
	}
	var values []string
	for _, object := range objects {
		path := jsonpath.New("value").AllowMissingKeys(true)
		if err := path.Parse(relaxed); err != nil {
			return "", err
		}
		found, err := path.FindResults(object.(*unstructured.Unstructured).Object)
		if err != nil {
			return "", err
		}
		value := "<none>"
		if len(found) > 0 && len(found[0]) > 0 {
			value = fmt.Sprint(found[0][0].Interface())
		}
		values = append(values, value)
	}
	return strings.Join(values, "\n"), nil
}

func answerOnce(list *unstructured.UnstructuredList, form, text string) (out string, err error) {
	defer func() { // kubectl crashes there
		if said := recover(); said != nil {
			err = errors.New("panic")
		}
	}()
	switch form {
	case "jsonpath":
		return printPath(list, text)
	case "custom-columns":
		return printColumns(list, text)
	case "sort-by":
		return printSorted(list, text)
	}
	return "", fmt.Errorf("no form %q", form)
}

func answer(list *unstructured.UnstructuredList, one map[string]any) {
	form, _ := one["form"].(string)
	text, _ := one["text"].(string)
	out, err := answerOnce(list, form, text)
	for range tries {
		again, _ := answerOnce(list, form, text)
		if again != out {
			one["unordered"] = true
		}
	}
	if err != nil {
		one["error"] = err.Error()
	} else {
		one["out"] = out
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: oracle OBJECTS.json < cases")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	if err := list.UnmarshalJSON(text); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		one := map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return err
		}
		answer(list, one)
		line, err := json.Marshal(one)
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
