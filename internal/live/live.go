// SPDX-License-Identifier: Apache-2.0

// Package live follows an instance through its API and keeps its last ten minutes as rates, for `tidegate top` and
// `tidegate web`. It must know neither of them, and use nothing but the API.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidegate/internal/api"
	"tidegate/internal/event"
	"tidegate/internal/plane"
	"tidegate/internal/status"
)

const (
	every      = 500 * time.Millisecond // twice as often as the API reads, so that no reading is missed
	pointsKept = 600
	eventsKept = 200
)

// Reason is a counter and its rate.
type Reason struct {
	Counter string  `json:"counter"`
	Rate    float64 `json:"rate"` // a second
}

// Service is a service during one second. The rates are per second.
type Service struct {
	Name     string   `json:"name"`
	Mode     string   `json:"mode"`
	How      string   `json:"how"` // a proxy's strategy, a host's listener
	SYN      float64  `json:"syn"`
	Answered float64  `json:"answered"` // by the gate instead of the server
	Verified float64  `json:"verified"` // clients that have proven their address
	Dropped  float64  `json:"dropped"`
	Reasons  []Reason `json:"reasons"` // every counter that increases, the fastest first
}

// Cost is the processor time of the programs at a hook during one second.
type Cost struct {
	Hook      string  `json:"hook"`
	Interface string  `json:"interface"`
	Packets   float64 `json:"packets"`   // a second
	Ns        float64 `json:"ns"`        // a packet
	Processor float64 `json:"processor"` // of one, 0 to the number of processors
}

// Point is one second of an instance.
type Point struct {
	Time     time.Time `json:"time"`
	Services []Service `json:"services"`
	Global   []Reason  `json:"global"`
	Cost     []Cost    `json:"cost"`
}

// Header is what rarely changes.
type Header struct {
	Instance   string                   `json:"instance"`
	Role       string                   `json:"role"`
	Version    string                   `json:"version"`
	Interfaces []string                 `json:"interfaces"`
	XDP        map[string]plane.XDPMode `json:"xdp"`
	KeysUntil  time.Time                `json:"keys_until"`
	Conditions []event.Condition        `json:"conditions"`
}

// View is everything to show. It is never modified.
type View struct {
	Header  Header        `json:"header"`
	Points  []Point       `json:"points"` // the oldest first
	Events  []event.Event `json:"events"` // likewise
	Trouble string        `json:"trouble,omitempty"`
	NoCost  string        `json:"no_cost,omitempty"` // why there are no costs
}

// Feed polls the API.
type Feed struct {
	api  *api.Client
	mu   sync.Mutex
	view View

	before     *status.Status // of the previous second
	beforeAt   time.Time
	beforeCost map[string]plane.Cost
	costAt     time.Time
	lastEvent  uint64
}

// New follows the instance of that name once Run is called.
func New(stateDir, name string) *Feed {
	return &Feed{api: api.NewClient(stateDir, name), view: View{Header: Header{Instance: name}}}
}

// View returns the latest view.
func (f *Feed) View() View {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.view
	v.Points, v.Events = slices.Clone(v.Points), slices.Clone(v.Events)
	return v
}

// Run polls once a second until ctx ends. It continues when the instance does not answer, which the view shows; seen, if not
// nil, is called after each second.
func (f *Feed) Run(ctx context.Context, seen func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		if f.view.Trouble = ""; err != nil {
			f.view.Trouble = err.Error()
			f.before = nil // rates over a gap would be wrong
		}
		f.mu.Unlock()
		if seen != nil {
			seen()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ErrNoServices: patrols and managers have no services to show.
var ErrNoServices = errors.New("this role has no services; `tidegate status` shows how it is")

func (f *Feed) ask(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 5*every)
	defer stop()
	st := &status.Status{}
	at, err := f.api.Status(ctx, st)
	if err != nil {
		return err
	}
	if st.Services == nil {
		return ErrNoServices
	}
	var conditions []event.Condition
	if err := f.api.Do(ctx, http.MethodGet, "/v1/conditions", nil, &conditions); err != nil {
		return err
	}
	if err := f.events(ctx); err != nil {
		return err
	}
	var costs []plane.Cost
	costAt := time.Now()
	costErr := f.api.Do(ctx, http.MethodGet, "/v1/cost", nil, &costs)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.NoCost = ""
	if costErr != nil {
		f.view.NoCost = costErr.Error()
	}
	f.view.Header = Header{Instance: st.Instance, Role: st.Role, Version: st.Version, Interfaces: st.Interfaces, XDP: st.XDP, KeysUntil: st.KeysUntil,
		Conditions: conditions}
	if !at.Equal(f.beforeAt) { // otherwise the API has returned the same reading again
		f.add(st, costs, at, costAt)
	}
	return nil
}

// events reads new events.
func (f *Feed) events(ctx context.Context) error {
	if f.lastEvent == 0 { // everything in the stream
		return f.readEvents(ctx, "/v1/events")
	}
	return f.readEvents(ctx, "/v1/events?after="+strconv.FormatUint(f.lastEvent, 10))
}

func (f *Feed) readEvents(ctx context.Context, path string) error {
	return f.api.Lines(ctx, path, func(line json.RawMessage) error {
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lastEvent = max(f.lastEvent, e.Seq)
		f.view.Events = last(append(f.view.Events, e), eventsKept)
		return nil
	})
}

// add makes a point from the differences to the previous one.
func (f *Feed) add(st *status.Status, costs []plane.Cost, at, costAt time.Time) {
	seconds := at.Sub(f.beforeAt).Seconds()
	if f.before != nil && seconds > 0 {
		p := Point{Time: at, Global: reasons(f.before.Global, st.Global, seconds), Cost: f.cost(costs, costAt.Sub(f.costAt).Seconds()), Services: []Service{}}
		for i := range st.Services {
			p.Services = append(p.Services, serviceRates(serviceNamed(f.before, st.Services[i].Name), &st.Services[i], seconds))
		}
		f.view.Points = last(append(f.view.Points, p), pointsKept)
	}
	f.before, f.beforeAt, f.costAt = st, at, costAt
	f.beforeCost = map[string]plane.Cost{}
	for _, c := range costs {
		f.beforeCost[c.Hook+" "+c.Interface] = c
	}
}

func serviceNamed(st *status.Status, name string) *status.Service {
	for i := range st.Services {
		if st.Services[i].Name == name {
			return &st.Services[i]
		}
	}
	return nil
}

// cost is the cost of each hook since the previous second. A program that runs on several interfaces is counted once.
func (f *Feed) cost(now []plane.Cost, seconds float64) []Cost {
	list := []Cost{}
	seen := map[uint32]bool{}
	for _, c := range now {
		was, known := f.beforeCost[c.Hook+" "+c.Interface]
		if !known || was.Program != c.Program || seen[c.Program] || c.Runs < was.Runs {
			continue
		}
		seen[c.Program] = true
		of := Cost{Hook: c.Hook, Interface: c.Interface, Packets: float64(c.Runs-was.Runs) / seconds, Processor: float64(c.Ns-was.Ns) / 1e9 / seconds}
		if c.Runs > was.Runs {
			of.Ns = float64(c.Ns-was.Ns) / float64(c.Runs-was.Runs)
		}
		list = append(list, of)
	}
	return list
}

// Counters whose meaning their name does not show: core/counters.def.
var (
	answered = []string{"cookie_sent", "challenge_sent", "cache_kept"}
	verified = []string{"cookie_valid", "cache_valid", "white_added"}
)

func serviceRates(before, now *status.Service, seconds float64) Service {
	s := Service{Name: now.Name, Mode: now.Mode, How: cmp.Or(now.Strategy, now.Listener), Reasons: []Reason{}}
	if before == nil {
		return s
	}
	s.Reasons = reasons(before.Counters, now.Counters, seconds)
	for _, r := range s.Reasons {
		switch {
		case r.Counter == "syn":
			s.SYN = r.Rate
		case slices.Contains(answered, r.Counter):
			s.Answered += r.Rate
		case slices.Contains(verified, r.Counter):
			s.Verified += r.Rate
		case strings.HasPrefix(r.Counter, "drop_"):
			s.Dropped += r.Rate
		}
	}
	return s
}

// reasons are the counters that have increased. One that has decreased was cleared, and has no rate.
func reasons(before, now map[string]uint64, seconds float64) []Reason {
	list := []Reason{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] > before[name] {
			list = append(list, Reason{name, float64(now[name]-before[name]) / seconds})
		}
	}
	slices.SortStableFunc(list, func(a, b Reason) int { return cmp.Compare(b.Rate, a.Rate) })
	return list
}

func last[T any](list []T, n int) []T {
	if len(list) > n {
		return slices.Clone(list[len(list)-n:])
	}
	return list
}
