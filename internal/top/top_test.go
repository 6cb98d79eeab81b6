// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"tidegate/internal/event"
	"tidegate/internal/live"
)

func TestRate(t *testing.T) {
	for in, want := range map[float64]string{0: "0", 0.04: "0.0", 9.94: "9.9", 10: "10", 9999: "9999", 12_340: "12.3k", 999_900: "999.9k", 3_200_000: "3.20M"} {
		if got := Rate(in); got != want {
			t.Errorf("Rate(%v) is %s, want %s", in, got, want)
		}
	}
}

func TestSpark(t *testing.T) {
	if got := Spark([]float64{9, 0, 1, 4, 8}, 4); got != " ▂▅█" {
		t.Errorf("%q", got)
	}
	if got := Spark(nil, 10); got != "" {
		t.Errorf("%q of nothing", got)
	}
}

// Whatever there is to show fits: no line is longer than the screen, and there are not more of them.
func TestScreenFits(t *testing.T) {
	for _, services := range []int{0, 1, 40} {
		for _, size := range [][2]int{{80, 24}, {132, 50}, {40, 10}} {
			m := New(live.New("", "x"))
			p := live.Point{Time: time.Unix(1000, 0)}
			for i := range services {
				s := live.Service{Name: fmt.Sprintf("a-service-with-a-long-name-%d", i), Mode: "always", SYN: 1.5e6}
				for j := range 12 {
					s.Reasons = append(s.Reasons, live.Reason{Counter: "drop_malformed", Rate: float64(j)})
				}
				p.Services = append(p.Services, s)
			}
			m.view = live.View{Points: []live.Point{p, p}, Events: []event.Event{{Kind: "degraded", Message: strings.Repeat("long ", 60)}}, NoCost: "because"}
			next, _ := m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			next, _ = next.Update(tea.KeyMsg{Type: tea.KeyDown})
			lines := strings.Split(next.View(), "\n")
			if len(lines) > size[1] {
				t.Errorf("%d services on %v: %d lines", services, size, len(lines))
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > size[0] {
					t.Errorf("%d services on %v: a line of %d columns: %s", services, size, w, l)
				}
			}
		}
	}
}
