// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"tidegate/internal/event"
)

// printEvent writes an event as a line for people.
func printEvent(w io.Writer, line json.RawMessage) error {
	var e event.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	about := ""
	for _, s := range []string{e.Name, e.Service} {
		if s != "" {
			about += " " + s
		}
	}
	more := ""
	for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
		more += fmt.Sprintf(" %s=%q", k, e.Detail[k])
	}
	_, err := fmt.Fprintf(w, "%d %s %s%s: %s%s\n", e.Seq, e.Time.Local().Format(time.DateTime), e.Kind, about, e.Message, more)
	return err
}
