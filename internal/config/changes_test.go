// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// someConfig is the configuration of a minimal file of role host.
func someConfig(t *testing.T) *Config {
	t.Helper()
	c, err := Parse("f", []byte("interfaces: [eth0]\nsecret_file: s\nservices:\n  - name: web\n    ports: [80]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every field, set to another value, is a change with a name: a field added to Config
// and forgotten in the list would be silently ignored by reloads.
func TestChangedKnowsEveryField(t *testing.T) {
	var visit func(v reflect.Value, path string)
	base := someConfig(t)
	was := *base
	base.Patrol, base.Border, base.Filter = &Patrol{}, &Border{}, &Filter{}
	visit = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			if name == "Services" || name == "Warnings" || name == "FleetLeftOut" || name == "FleetSources" {
				continue // live in every role; reported, not compared
			}
			if f := v.Field(i); f.Kind() == reflect.Pointer {
				visit(f.Elem(), name+".")
				continue
			}
			if f := v.Field(i); f.Kind() == reflect.Struct && f.Type().PkgPath() == v.Type().PkgPath() && name != "NextSecret" && name != "ReportTo" && f.Type() != reflect.TypeFor[Rate]() && f.Type() != reflect.TypeFor[Signed]() {
				visit(f, name+".")
				continue
			}
			before, c := was, was
			for _, to := range []*Config{&before, &c} { // of the three, the one that is looked at
				switch {
				case strings.HasPrefix(name, "Patrol."):
					to.Patrol = &Patrol{}
				case strings.HasPrefix(name, "Border."):
					to.Border = &Border{}
				case strings.HasPrefix(name, "Filter."):
					to.Filter = &Filter{}
				}
			}
			f := reflect.ValueOf(&c).Elem()
			for part := range strings.SplitSeq(name, ".") {
				f = reflect.Indirect(f).FieldByName(part)
			}
			f.Set(otherThan(t, f, name))
			changed := Changed(&before, &c)
			if len(changed) != 1 && !(name == "Border.Interfaces" && len(changed) == 0) { // a copy of Interfaces
				t.Errorf("%s: a change of it is %q; want one name", name, changed)
			}
		}
	}
	visit(reflect.ValueOf(base).Elem(), "")
}

func otherThan(t *testing.T, v reflect.Value, name string) reflect.Value {
	t.Helper()
	switch other := reflect.New(v.Type()).Elem(); v.Kind() {
	case reflect.String:
		other.SetString(v.String() + "x")
		return other
	case reflect.Bool:
		other.SetBool(!v.Bool())
		return other
	case reflect.Int, reflect.Int64:
		other.SetInt(v.Int() + 1)
		return other
	case reflect.Uint8, reflect.Uint32:
		other.SetUint(v.Uint() + 1)
		return other
	case reflect.Float64:
		other.SetFloat(v.Float() + 1)
		return other
	case reflect.Pointer:
		return reflect.New(v.Type().Elem())
	case reflect.Slice:
		return reflect.MakeSlice(v.Type(), 1, 1)
	default:
		switch v.Interface().(type) {
		case NextSecret:
			return reflect.ValueOf(NextSecret{File: "x", From: time.Unix(1, 0)})
		case netip.Addr:
			return reflect.ValueOf(netip.MustParseAddr("127.0.0.1"))
		case netip.AddrPort:
			return reflect.ValueOf(netip.MustParseAddrPort("127.0.0.1:1"))
		case Signed:
			return reflect.ValueOf(Signed{Key: "x"})
		case Rate:
			return reflect.ValueOf(Rate{All: true})
		case ReportTo:
			return reflect.ValueOf(ReportTo{API: "x"})
		}
		t.Fatalf("%s: no other value of type %s is known here", name, v.Type())
		return v
	}
}

func TestCheckReload(t *testing.T) {
	old, next := someConfig(t), someConfig(t)
	next.Drain, next.Services = time.Minute, []Service{{Name: "web"}}
	if err := CheckReload(old, next, ""); err != nil {
		t.Error(err)
	}
	next.ClockSkew = time.Second
	if err := CheckReload(old, next, ""); err == nil || !strings.HasPrefix(err.Error(), "clock_skew changed") || !strings.Contains(err.Error(), "loses: nothing") {
		t.Errorf("clock_skew: %v", err)
	}
	next = someConfig(t)
	next.Tagged.MaxConnections++
	if err := CheckReload(old, next, ""); err == nil || !strings.Contains(err.Error(), "loses: translated connections") {
		t.Errorf("max_connections: %v", err)
	}
	// The same change, in two roles.
	for role, live := range map[string]bool{RoleEdge: true, RoleHost: false} {
		old, next := someConfig(t), someConfig(t)
		old.Role, next.Role = role, role
		next.Edge.Hops++
		if err := CheckReload(old, next, ""); (err == nil) != live {
			t.Errorf("hops, role %s: %v", role, err)
		}
	}
}
