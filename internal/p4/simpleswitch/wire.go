// SPDX-License-Identifier: Apache-2.0

package simpleswitch

import (
	"context"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"
)

// A structure is the fields of a Thrift struct, by number. Values are bool, int32,
// int64, float64, string, []byte, structure and list.
type structure map[int16]any

// A list is a Thrift list; of an empty one the element type would be unknown.
type list struct {
	of    thrift.TType
	items []any
}

func typeOf(v any) thrift.TType {
	switch v.(type) {
	case bool:
		return thrift.BOOL
	case int32:
		return thrift.I32
	case int64:
		return thrift.I64
	case float64:
		return thrift.DOUBLE
	case string, []byte:
		return thrift.STRING
	case structure:
		return thrift.STRUCT
	case list:
		return thrift.LIST
	}
	panic(fmt.Sprintf("simpleswitch: no Thrift type for %T", v))
}

// Write makes a structure a thrift.TStruct.
func (s structure) Write(ctx context.Context, p thrift.TProtocol) error {
	if err := p.WriteStructBegin(ctx, ""); err != nil {
		return err
	}
	for id, v := range s {
		if err := p.WriteFieldBegin(ctx, "", typeOf(v), id); err != nil {
			return err
		}
		if err := writeValue(ctx, p, v); err != nil {
			return err
		}
		if err := p.WriteFieldEnd(ctx); err != nil {
			return err
		}
	}
	if err := p.WriteFieldStop(ctx); err != nil {
		return err
	}
	return p.WriteStructEnd(ctx)
}

func writeValue(ctx context.Context, p thrift.TProtocol, v any) error {
	switch v := v.(type) {
	case bool:
		return p.WriteBool(ctx, v)
	case int32:
		return p.WriteI32(ctx, v)
	case int64:
		return p.WriteI64(ctx, v)
	case float64:
		return p.WriteDouble(ctx, v)
	case string:
		return p.WriteString(ctx, v)
	case []byte:
		return p.WriteBinary(ctx, v)
	case structure:
		return v.Write(ctx, p)
	case list:
		if err := p.WriteListBegin(ctx, v.of, len(v.items)); err != nil {
			return err
		}
		for _, item := range v.items {
			if err := writeValue(ctx, p, item); err != nil {
				return err
			}
		}
		return p.WriteListEnd(ctx)
	}
	panic("unreachable: typeOf has seen it")
}

// Read makes a structure a thrift.TStruct.
func (s structure) Read(ctx context.Context, p thrift.TProtocol) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == thrift.STOP {
			break
		}
		if s[id], err = readValue(ctx, p, kind); err != nil {
			return err
		}
		if err := p.ReadFieldEnd(ctx); err != nil {
			return err
		}
	}
	return p.ReadStructEnd(ctx)
}

func readValue(ctx context.Context, p thrift.TProtocol, kind thrift.TType) (any, error) {
	switch kind {
	case thrift.BOOL:
		return p.ReadBool(ctx)
	case thrift.I32:
		return p.ReadI32(ctx)
	case thrift.I64:
		return p.ReadI64(ctx)
	case thrift.DOUBLE:
		return p.ReadDouble(ctx)
	case thrift.STRING:
		return p.ReadString(ctx)
	case thrift.STRUCT:
		s := structure{}
		return s, s.Read(ctx, p)
	case thrift.LIST:
		of, size, err := p.ReadListBegin(ctx)
		if err != nil {
			return nil, err
		}
		l := list{of: of}
		for range size {
			v, err := readValue(ctx, p, of)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, v)
		}
		return l, p.ReadListEnd(ctx)
	}
	return nil, p.Skip(ctx, kind)
}
