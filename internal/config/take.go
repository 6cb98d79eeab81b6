// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fieldOf returns the entry of a field in the table, for a role and plane; if they have no such field (which is
// refused elsewhere), that of another role or plane.
func fieldOf(name, role string, plane Plane) (found *Field) {
	best := -1
	for i := range fields {
		f := &fields[i]
		if f.Name != name {
			continue
		}
		fits := 0
		if slices.Contains(f.Roles, role) {
			fits += 2
		}
		if len(f.Planes) == 0 || slices.Contains(f.Planes, plane) || !hasPlanes(role) {
			fits++
		}
		if fits > best {
			found, best = f, fits
		}
	}
	if found == nil {
		panic("config: the table has no field " + name)
	}
	return found
}

// fieldOf is the entry for what is being read.
func (r *reader) fieldOf(name string) *Field { return fieldOf(name, r.role, r.plane) }

// take reads a field of the reader's role and plane: kind, words, range and default are those of the table of fields,
// and of nothing else. `to` points to a value of the field's kind: a string type, time.Duration, a whole number,
// AutoInt, Rate, float64 or bool. It returns whether the file has the field, valid or not.
func (r *reader) take(fs map[string]field, name string, to any) bool {
	f, v := r.fieldOf(name), reflect.ValueOf(to).Elem()
	low, high := r.limits(f)
	r.setDefault(f, v)
	defer r.remember(name, v)
	it, there := fs[name[strings.LastIndexByte(name, '.')+1:]]
	if !there {
		return false
	}
	switch f.Kind {
	case Text:
		if s, ok := r.text(it, "a value"); ok {
			v.SetString(s)
		}
	case Words:
		if s, ok := r.word(it, r.words(f)...); ok {
			v.SetString(s)
		}
	case Duration:
		if d, ok := r.duration(it, time.Duration(low), time.Duration(high)); ok {
			v.SetInt(int64(d))
		}
	case Number:
		if n, ok := r.number(it, int(low), int(high)); ok {
			setNumber(v, n)
		}
	case Auto:
		if n, ok := r.autoInt(it, int(low), int(high)); ok {
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

// words returns those that a field has on the reader's plane.
func (r *reader) words(f *Field) (words []string) {
	for _, w := range f.Words {
		if !slices.Contains(f.Lacks[r.plane], w) {
			words = append(words, w)
		}
	}
	return words
}

// remember keeps a number, and whether a text has a value, for the fields whose limits or default depend on it.
func (r *reader) remember(name string, v reflect.Value) {
	if r.values == nil {
		r.values = map[string]int64{}
	}
	switch {
	case v.CanInt():
		r.values[name] = v.Int()
	case v.Kind() == reflect.String:
		r.values[name] = int64(v.Len())
	}
}

func (r *reader) part(p Part) int64 {
	value, read := r.values[p.Of]
	if !read {
		panic("config: " + p.Of + " is read after what depends on it")
	}
	return value * p.Num / p.Den
}

// limits returns the lowest and highest value of a field.
func (r *reader) limits(f *Field) (low, high int64) {
	low, high = f.Low, f.High
	if f.LowPart.Of != "" {
		low = max(low, r.part(f.LowPart))
	}
	if f.HighPart.Of != "" {
		high = min(high, r.part(f.HighPart))
	}
	return low, high
}

func setNumber(v reflect.Value, n int) {
	if v.CanUint() {
		v.SetUint(uint64(n))
		return
	}
	v.SetInt(int64(n))
}

// setDefault sets the value for a file without the field.
func (r *reader) setDefault(f *Field, v reflect.Value) {
	if f.DefaultPart.Of != "" {
		v.SetInt(r.part(f.DefaultPart))
		return
	}
	def := f.Default
	if w := f.DefaultWith; w.Field != "" && r.part(Part{w.Field, 1, 1}) != 0 {
		def = w.Default
	}
	if def == "" || strings.HasPrefix(def, "required") || strings.Contains(def, "`") {
		return
	}
	var err error
	switch f.Kind {
	case Text, Words:
		v.SetString(def)
	case Duration:
		var d time.Duration
		d, err = time.ParseDuration(def)
		v.SetInt(int64(d))
	case Number:
		var n int
		n, err = strconv.Atoi(def)
		setNumber(v, n)
	case Auto:
		v.Set(reflect.ValueOf(AutoInt{Auto: true}))
	case Rate64:
		var n int
		n, err = strconv.Atoi(def)
		v.Set(reflect.ValueOf(Rate{PerSecond: n}))
	case Share:
		var share float64
		share, err = parseShare(def)
		v.SetFloat(share)
	case YesNo:
		v.SetBool(def == "yes")
	}
	if err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", f.Name, err))
	}
}
