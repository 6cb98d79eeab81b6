// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tidegate/internal/config"
)

// reportEntry is a node's entry of the key-value store.
type reportEntry struct {
	jetstream.KeyValueEntry
	key   string
	value []byte
}

func (e reportEntry) Key() string        { return e.key }
func (e reportEntry) Value() []byte      { return e.value }
func (e reportEntry) Created() time.Time { return time.Now() }

// No text of a node's report, in whatever field, reaches a terminal with escape sequences, line breaks or marks of direction.
func TestReportsDoNotSteerTerminals(t *testing.T) {
	const bad = "web\x1b[2J\r\n\u202e\u200b\x00 ä"
	r := Report{Node: "a"}
	v := reflect.ValueOf(&r).Elem()
	filled := 0
	for i := range v.NumField() {
		f := v.Field(i)
		switch of := f.Addr().Interface().(type) {
		case *string:
			if v.Type().Field(i).Name != "Node" {
				*of = bad
				filled++
			}
		case *[]string:
			*of = []string{bad}
			filled++
		case *map[string]string:
			*of = map[string]string{bad: bad}
			filled++
		case *map[string]config.Mode:
			*of = map[string]config.Mode{bad: config.Mode(bad)}
			filled++
		case *config.Offers:
			*of = config.Offers{bad: {MSSv4: 1460, MSSv6: 1440, Window: 64240}, "impossible": {WScale: 99}}
		case *uint64, *time.Time, *[]Offender, **SourceSummary: // numbers and prefixes
		default:
			t.Errorf("field %s: this test does not know how to fill it", v.Type().Field(i).Name)
		}
	}
	if filled < 8 {
		t.Fatalf("%d fields were filled", filled)
	}
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	n := node(reportEntry{key: "a", value: text})
	const want = "web\ufffd[2J\ufffd\ufffd\ufffd\ufffd\ufffd ä"
	if n.Error != want || n.Degraded[0] != want || string(n.Modes[want]) != want || n.Attacks[want] != want || len(n.Offers) != 1 || n.Offers[want].MSSv4 != 1460 {
		t.Errorf("%+v", n.Report)
	}
	v = reflect.ValueOf(n.Report)
	for i := range v.NumField() {
		if shown, err := json.Marshal(v.Field(i).Interface()); err != nil || strings.Contains(string(shown), `\u001b`) || strings.ContainsAny(string(shown), "\u202e\u200b") {
			t.Errorf("field %s: %s, %v", v.Type().Field(i).Name, shown, err)
		}
	}
}
