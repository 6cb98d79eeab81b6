// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fieldOf is the entry of a field in the table, for a role; for one that has no such field (which is told of
// elsewhere) that of another role.
func fieldOf(name, role string) (f *Field) {
	for i := range fields {
		if fields[i].Name != name {
			continue
		}
		if f = &fields[i]; slices.Contains(f.Roles, role) {
			return f
		}
	}
	if f == nil {
		panic("config: the table has no field " + name)
	}
	return f
}

// take reads a field of the reader's role: kind, words, range and default are those of the table of fields, and
// of nothing else. `to` points to what has the field's kind: a string type, time.Duration, a whole number,
// AutoInt, Rate, float64 or bool. It says whether the file has the field, right or wrong.
func (r *reader) take(fs map[string]field, name string, to any) bool {
	return r.takeFrom(fs, name, to, math.MinInt64)
}

// takeFrom is take for a field whose lowest value another field may raise.
func (r *reader) takeFrom(fs map[string]field, name string, to any, lowest int64) bool {
	f, v := fieldOf(name, r.role), reflect.ValueOf(to).Elem()
	f.setDefault(v)
	it, there := fs[name[strings.LastIndexByte(name, '.')+1:]]
	if !there {
		return false
	}
	switch f.Kind {
	case Words:
		if s, ok := r.word(it, f.Words...); ok {
			v.SetString(s)
		}
	case Duration:
		if d, ok := r.duration(it, time.Duration(max(f.Low, lowest)), time.Duration(f.High)); ok {
			v.SetInt(int64(d))
		}
	case Number:
		if n, ok := r.number(it, int(f.Low), int(f.High)); ok {
			setNumber(v, n)
		}
	case Auto:
		if n, ok := r.autoInt(it, int(f.Low), int(f.High)); ok {
			v.Set(reflect.ValueOf(n))
		}
	case Rate64:
		r.rate(it, f, to.(*Rate))
	case Share:
		r.share(it, to.(*float64))
	case YesNo:
		if s, ok := r.word(it, "yes", "no", "true", "false"); ok {
			v.SetBool(s == "yes" || s == "true")
		}
	default:
		panic("config: take does not read the kind of " + name)
	}
	return true
}

func setNumber(v reflect.Value, n int) {
	if v.CanUint() {
		v.SetUint(uint64(n))
		return
	}
	v.SetInt(int64(n))
}

// setDefault sets what a file without the field gets. A default that depends on other fields, which the table
// describes in words and `marks`, is left to the reader of those.
func (f *Field) setDefault(v reflect.Value) {
	if f.Default == "" || strings.HasPrefix(f.Default, "required") || strings.Contains(f.Default, "`") {
		return
	}
	var err error
	switch f.Kind {
	case Words:
		v.SetString(f.Default)
	case Duration:
		var d time.Duration
		d, err = time.ParseDuration(f.Default)
		v.SetInt(int64(d))
	case Number:
		var n int
		n, err = strconv.Atoi(f.Default)
		setNumber(v, n)
	case Auto:
		v.Set(reflect.ValueOf(AutoInt{Auto: true}))
	case Rate64:
		var n int
		n, err = strconv.Atoi(f.Default)
		v.Set(reflect.ValueOf(Rate{PerSecond: n}))
	case Share:
		var share float64
		share, err = parseShare(f.Default)
		v.SetFloat(share)
	case YesNo:
		v.SetBool(f.Default == "yes")
	}
	if err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", f.Name, err))
	}
}
