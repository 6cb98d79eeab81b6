// SPDX-License-Identifier: Apache-2.0

// Package top draws an instance in a terminal, 80 columns by 24 lines or more. It must draw only what internal/live knows,
// and change nothing.
package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"tidegate/internal/event"
	"tidegate/internal/live"
	"tidegate/internal/schema"
)

// Refresh has the model draw again; send it whenever there is something new.
type Refresh struct{}

// Model is the state of the screen.
type Model struct {
	feed     *live.Feed
	view     live.View
	width    int
	height   int
	selected int // service
	help     bool
	paused   bool
}

// New shows what the feed knows.
func New(feed *live.Feed) Model { return Model{feed: feed, width: 80, height: 24} }

// Init asks for nothing.
func (m Model) Init() tea.Cmd { return nil }

// Update takes keys, sizes and news.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case Refresh:
		if !m.paused {
			m.view = m.feed.View()
		}
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "up", "k":
			m.selected--
		case "down", "j":
			m.selected++
		case "?", "h":
			m.help = !m.help
		case " ", "p":
			m.paused = !m.paused
		}
	}
	m.selected = max(0, min(m.selected, len(m.now().Services)-1))
	return m, nil
}

func (m Model) now() live.Point {
	if n := len(m.view.Points); n > 0 {
		return m.view.Points[n-1]
	}
	return live.Point{}
}

var (
	bold    = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	warning = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	chosen  = lipgloss.NewStyle().Reverse(true)
)

// View draws.
func (m Model) View() string {
	var lines []string
	if m.help {
		lines = helpLines
	} else {
		lines = m.screen()
	}
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, m.width, "…")
	}
	return strings.Join(lines[:min(len(lines), m.height)], "\n")
}

var helpLines = []string{
	bold.Render("tidegate top"),
	"",
	"SYN/s       SYNs to the service",
	"ANSWERED/s  of them answered in place of the server",
	"VERIFIED/s  clients that have proven their address",
	"DROPPED/s   packets dropped, whatever the reason",
	"LAST MINUTE SYN/s over the last minute, its highest is a full block",
	"",
	"Below: the counters of the selected service that move, the fastest first;",
	"what the packet path costs; what limits the protection; the last events.",
	"",
	"up, down    select a service",
	"space       pause",
	"?           this page",
	"q           quit",
}

func (m Model) screen() (lines []string) {
	h, now := m.view.Header, m.now()
	title := fmt.Sprintf("tidegate %s · %s · %s", h.Version, h.Role, h.Instance)
	var ports []string
	for _, name := range h.Interfaces {
		port := name
		if mode := h.XDP[name]; mode != "" {
			port += " " + string(mode)
		}
		ports = append(ports, port)
	}
	lines = append(lines, bold.Render(title)+faint.Render("  "+strings.Join(ports, ", ")))
	switch {
	case m.view.Trouble != "":
		lines = append(lines, warning.Render(m.view.Trouble))
	case m.paused:
		lines = append(lines, warning.Render("paused at "+now.Time.Format(time.TimeOnly)+"; space goes on"))
	case now.Time.IsZero():
		lines = append(lines, faint.Render("the first second is being counted"))
	default:
		lines = append(lines, faint.Render(now.Time.Format(time.DateTime)))
	}
	lines = append(lines, "")
	rest := m.height - len(lines) - 1 // the last line has the keys

	// Services take what they need, but leave room for reasons and events.
	head := fmt.Sprintf("%-16s %-8s %10s %10s %10s %10s  %s", "SERVICE", "MODE", "SYN/s", "ANSWERED/s", "VERIFIED/s", "DROPPED/s", "LAST MINUTE")
	lines = append(lines, bold.Render(head))
	rows := min(len(now.Services), max(1, rest-12))
	first := max(0, min(m.selected-rows/2, len(now.Services)-rows))
	for i := first; i < first+rows; i++ {
		lines = append(lines, m.service(i, now.Services[i]))
	}
	if hidden := len(now.Services) - rows; hidden > 0 {
		lines = append(lines, faint.Render(fmt.Sprintf("%d more services; up and down show them", hidden)))
	}
	below := append(m.reasons(now), "")
	below = append(below, m.cost(now)...)
	below = append(below, m.conditions()...)
	room := m.height - len(lines) - len(below) - 1
	below = append(below, m.events(max(0, min(room, 8)))...)
	lines = append(lines, below[:max(0, min(len(below), m.height-len(lines)-1))]...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, faint.Render("q quit   up/down select   space pause   ? help"))
}

func (m Model) service(i int, s live.Service) string {
	text := fmt.Sprintf("%-16s %-8s %10s %10s %10s %10s  ", ansi.Truncate(s.Name, 16, "…"), s.Mode, Rate(s.SYN), Rate(s.Answered), Rate(s.Verified), Rate(s.Dropped))
	if i == m.selected {
		text = chosen.Render(text)
	}
	return text + Spark(m.history(s.Name), max(8, m.width-ansi.StringWidth(text)-1))
}

func (m Model) history(name string) (list []float64) {
	points := m.view.Points
	for _, p := range points[max(0, len(points)-60):] {
		i := slices.IndexFunc(p.Services, func(s live.Service) bool { return s.Name == name })
		if i < 0 {
			list = append(list, 0)
			continue
		}
		list = append(list, p.Services[i].SYN)
	}
	return list
}

// reasons are the counters of the selected service and of none.
func (m Model) reasons(now live.Point) []string {
	if m.selected >= len(now.Services) {
		return nil
	}
	s := now.Services[m.selected]
	lines := []string{"", bold.Render("Reasons, "+s.Name) + faint.Render("  "+s.How)}
	all := slices.Concat(s.Reasons, now.Global)
	slices.SortStableFunc(all, func(a, b live.Reason) int { return cmp.Compare(b.Rate, a.Rate) })
	if len(all) == 0 {
		lines = append(lines, faint.Render("  nothing is counted"))
	}
	for _, r := range all[:min(len(all), 5)] {
		meaning := ""
		if c, ok := schema.ByName(r.Counter); ok {
			meaning = c.Help()
		}
		lines = append(lines, fmt.Sprintf("%10s %-18s %s", Rate(r.Rate), r.Counter, faint.Render(meaning)))
	}
	return lines
}

func (m Model) cost(now live.Point) []string {
	if m.view.NoCost != "" {
		return []string{faint.Render("cost unknown: " + m.view.NoCost)}
	}
	var parts []string
	for _, c := range now.Cost {
		if c.Packets > 0 {
			parts = append(parts, fmt.Sprintf("%s %s %.0f ns a packet, %s/s, %.1f%% of a processor", c.Hook, c.Interface, c.Ns, Rate(c.Packets), 100*c.Processor))
		}
	}
	if parts == nil {
		return nil
	}
	for i := range parts {
		parts[i] = bold.Render(map[bool]string{true: "Cost  ", false: "      "}[i == 0]) + parts[i]
	}
	return parts
}

func (m Model) conditions() (lines []string) {
	for _, c := range m.view.Header.Conditions {
		lines = append(lines, warning.Render(strings.TrimSpace("! "+c.Name+" "+c.Service)+": "+c.Message))
	}
	if until := m.view.Header.KeysUntil; !until.IsZero() && m.view.Header.XDP != nil && time.Until(until) < 0 {
		lines = append(lines, warning.Render("! the keys have ended"))
	}
	return lines
}

func (m Model) events(room int) (lines []string) {
	if room < 2 || len(m.view.Events) == 0 {
		return nil
	}
	lines = append(lines, bold.Render("Events"))
	list := m.view.Events
	for _, e := range list[max(0, len(list)-room+1):] {
		lines = append(lines, EventLine(e))
	}
	return lines
}

// EventLine is an event in a line.
func EventLine(e event.Event) string {
	what := string(e.Kind)
	for _, s := range []string{e.Name, e.Service} {
		if s != "" {
			what += " " + s
		}
	}
	return fmt.Sprintf("%s %s: %s", e.Time.Local().Format(time.TimeOnly), what, e.Message)
}

// Rate is a number for people: at most four digits and a unit.
func Rate(r float64) string {
	switch {
	case r == 0:
		return "0"
	case r < 9.95:
		return fmt.Sprintf("%.1f", r)
	case r < 9999.5:
		return fmt.Sprintf("%.0f", r)
	case r < 999_950:
		return fmt.Sprintf("%.1fk", r/1e3)
	}
	return fmt.Sprintf("%.2fM", r/1e6)
}

var blocks = []rune("▁▂▃▄▅▆▇█")

// Spark draws the last values of a series, as many as there is room for. Zero is a blank; anything else can be seen.
func Spark(list []float64, room int) string {
	list = list[max(0, len(list)-room):]
	top := 0.0
	for _, v := range list {
		top = math.Max(top, v)
	}
	out := make([]rune, len(list))
	for i, v := range list {
		out[i] = ' '
		if v != 0 {
			out[i] = blocks[min(len(blocks)-1, int(v/top*float64(len(blocks))))]
		}
	}
	return string(out)
}
