package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxConfig bounds the size of a YAML file, and maxNesting how deep its lists and mappings
// in brackets are: the parser's time grows with the square of that.
const (
	maxConfig  = 1 << 18
	maxNesting = 32
)

// yamlFile is a file that is being read, for errors that show where they are.
type yamlFile struct {
	name string
	text []byte
}

// parse returns the mapping that the file is, nil if there is nothing in it.
func (f *yamlFile) parse(r io.Reader) (ast.Node, error) {
	if err := f.read(r); err != nil {
		return nil, err
	}
	if err := f.checkNesting(); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(f.text, 0)
	if err != nil {
		return nil, f.describe(err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if body != nil {
			return nil, f.error(doc.Body.GetToken().Position, "a second document, want one")
		}
		body = doc.Body
	}
	return body, nil
}

// read takes the text, without what some editors put into it.
func (f *yamlFile) read(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return err
	}
	if len(text) > maxConfig {
		return fmt.Errorf("%s: more than %d bytes, which is too much for settings", f.name, maxConfig)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	f.text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return nil
}

// checkNesting finds brackets that are too deep.
func (f *yamlFile) checkNesting() error {
	depth := 0
	for _, t := range lexer.Tokenize(string(f.text)) {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
		if depth > maxNesting {
			return f.error(t.Position, fmt.Sprintf("brackets in more than %d others", maxNesting))
		}
	}
	return nil
}

// checkWhole finds numbers with a fraction where t has whole ones, which the decoder cuts off.
func (f *yamlFile) checkWhole(node ast.Node, t reflect.Type) error {
	switch n := node.(type) {
	case *ast.SequenceNode:
		for _, entry := range n.Values {
			if err := f.checkWhole(entry, t.Elem()); err != nil {
				return err
			}
		}
	case *ast.MappingNode:
		for _, v := range n.Values {
			if field := fieldOf(t, v.Key.GetToken().Value); field != nil {
				if err := f.checkWhole(v.Value, field); err != nil {
					return err
				}
			}
		}
	case *ast.FloatNode:
		if kind := t.Kind(); (kind == reflect.Int || kind == reflect.Uint64) && n.Value != math.Trunc(n.Value) {
			return f.error(n.GetToken().Position, "want "+kindOfValue(t))
		}
	}
	return nil
}

// fieldOf returns the type of the field of a struct that a key stands for, nil if there is none.
func fieldOf(t reflect.Type, key string) reflect.Type {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if options == "inline" {
			if found := fieldOf(field.Type, key); found != nil {
				return found
			}
		} else if name == key {
			return field.Type
		}
	}
	return nil
}

// entriesOf returns the n entries of a list, nil if the file does not spell them out.
func entriesOf(body ast.Node, key string, n int) []ast.Node {
	mapping, ok := body.(*ast.MappingNode)
	if !ok {
		return nil
	}
	for _, v := range mapping.Values {
		value := v.Value
		if anchor, ok := value.(*ast.AnchorNode); ok {
			value = anchor.Value
		}
		if list, ok := value.(*ast.SequenceNode); ok && v.Key.GetToken().Value == key && len(list.Values) == n {
			return list.Values
		}
	}
	return nil
}

// at is where a node begins, as file:line.
func (f *yamlFile) at(node ast.Node) string {
	line := node.GetToken().Position.Line
	if mapping, ok := node.(*ast.MappingNode); ok && len(mapping.Values) > 0 {
		line = mapping.Values[0].Key.GetToken().Position.Line
	}
	return fmt.Sprintf("%s:%d", f.name, line)
}

// describe says on one line where in the file an error is, and what was expected there.
func (f *yamlFile) describe(err error) error {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil || at.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	message := at.GetMessage()
	var mismatch *yaml.TypeError
	var overflow *yaml.OverflowError
	var form *yaml.UnexpectedNodeTypeError
	switch {
	case errors.As(err, &mismatch):
		message = "want " + kindOfValue(mismatch.DstType)
	case errors.As(err, &overflow):
		message = "want " + kindOfValue(overflow.DstType)
	case errors.As(err, &form) && form.Expected == ast.SequenceType:
		message = "want a list"
	case errors.As(err, &form) && form.Expected == ast.MappingType:
		message = "want keys with values, as in {layer: fc1, placement: resident}"
	}
	return f.error(at.GetToken().Position, message)
}

// error is a mistake at a position.
func (f *yamlFile) error(p *token.Position, message string) error {
	line := ""
	if lines := strings.Split(string(f.text), "\n"); p.Line >= 1 && p.Line <= len(lines) {
		line = strings.TrimSpace(lines[p.Line-1])
	}
	message = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?' // what the parser quotes may hold anything
	}, message)
	return fmt.Errorf("%s:%d:%d: %.60q: %s", f.name, p.Line, p.Column, line, message)
}

// kindOfValue says in words what a key takes.
func kindOfValue(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 30s"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "a text"
}
