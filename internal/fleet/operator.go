// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Revision is a desired state as it is stored.
type Revision struct {
	Number  uint64    `json:"revision"`
	Desired Desired   `json:"desired"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Only    []string  `json:"only,omitempty"`
	Why     string    `json:"why,omitempty"`
	Back    uint64    `json:"back,omitempty"`
	Rest    *Rest     `json:"rest,omitempty"`
	// Before is how many conditions each of Only had when the roll-out began.
	Before map[string]int `json:"before,omitempty"`
	Error  string         `json:"error,omitempty"` // it is garbage, which every node refuses
}

func revision(e jetstream.KeyValueEntry) Revision {
	s, err := decode(e.Value())
	if err != nil {
		return Revision{Number: e.Revision(), At: e.Created(), Error: err.Error()}
	}
	return Revision{Number: e.Revision(), Desired: s.Desired, By: s.By, At: s.At, Only: s.Only, Why: s.Why, Back: s.Back, Rest: s.Rest, Before: s.Before}
}

// ErrLost means that somebody else changed the desired state in between.
var ErrLost = errors.New("another change came first")

// Current is the newest revision; number 0 if there is none yet.
func (o *Operator) Current(ctx context.Context) (Revision, error) {
	kv, err := o.js.KeyValue(ctx, DesiredBucket)
	if err != nil {
		return Revision{}, explain(err)
	}
	e, err := kv.Get(ctx, desiredKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Revision{}, nil
	}
	if err != nil {
		return Revision{}, explain(err)
	}
	return revision(e), nil
}

// History are the kept revisions, the oldest first.
func (o *Operator) History(ctx context.Context) (list []Revision, err error) {
	kv, err := o.js.KeyValue(ctx, DesiredBucket)
	if err != nil {
		return nil, explain(err)
	}
	all, err := kv.History(ctx, desiredKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	for _, e := range all {
		list = append(list, revision(e))
	}
	return list, explain(err)
}

// Apply stores a desired state as the successor of a revision (0: the first). If that is not the newest any more, ErrLost.
func (o *Operator) Apply(ctx context.Context, r Revision, after uint64) (uint64, error) {
	if err := r.Desired.Validate(); err != nil {
		return 0, err
	}
	kv, err := o.js.KeyValue(ctx, DesiredBucket)
	if err != nil {
		return 0, explain(err)
	}
	value, err := json.Marshal(stored{Version: version, Desired: r.Desired, By: r.By, At: time.Now().UTC(), Only: r.Only, Why: r.Why, Back: r.Back, Rest: r.Rest, Before: r.Before})
	if err != nil {
		return 0, err
	}
	if most := o.conn.MaxPayload(); int64(len(value)) > most {
		return 0, fmt.Errorf("the desired state is %d bytes (with canaries it includes that of the other nodes); the servers' max_payload is %d: raise it, put lists into files of the nodes, or apply without --canary",
			len(value), most)
	}
	var n uint64
	if after == 0 {
		n, err = kv.Create(ctx, desiredKey, value)
	} else {
		n, err = kv.Update(ctx, desiredKey, value, after)
	}
	var api *jetstream.APIError
	if errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		now, readErr := o.Current(ctx)
		if readErr != nil {
			return 0, errors.Join(ErrLost, readErr)
		}
		if now.Error != "" {
			return 0, fmt.Errorf("%w: revision %d, which is garbage (%s); look at `tidegate fleet history` and apply again", ErrLost, now.Number, now.Error)
		}
		return 0, fmt.Errorf("%w: revision %d by %s (%s); look at `tidegate fleet diff` and apply again", ErrLost, now.Number, now.By, strings.Join(Diff(&r.Desired, &now.Desired), "; "))
	}
	return n, explain(err)
}

// Node is a node's report, as the servers have it.
type Node struct {
	Report
	Received time.Time     `json:"received"`
	Skew     time.Duration `json:"skew_ns"` // the node's clock minus the servers'
	Late     bool          `json:"late"`    // it has not reported for some time: it is cut off or gone
}

// quietWatch is how long nothing may come of the reports before they are asked for again: the consumer that lists them may have been
// with a server that is dead, and then says nothing more.
const quietWatch = 5 * time.Second

// Nodes are the reports of all nodes, by name.
func (o *Operator) Nodes(ctx context.Context) ([]Node, error) {
	for {
		list, whole, err := o.watchNodes(ctx)
		if err != nil || whole {
			return list, err
		}
	}
}

// watchReports watches the reports, first those that are there; stop ends that.
func (o *Operator) watchReports(ctx context.Context) (w jetstream.KeyWatcher, stop func(), err error) {
	for {
		watching, end := context.WithCancel(ctx)
		late := time.AfterFunc(o.quiet, end) // a question may have gone to a server that died: nobody answers it, and the library waits as long as it may
		var kv jetstream.KeyValue
		if kv, err = o.js.KeyValue(watching, NodesBucket); err == nil {
			w, err = kv.WatchAll(watching, jetstream.IgnoreDeletes())
		}
		inTime := late.Stop()
		if err == nil && inTime {
			return w, func() { _ = w.Stop(); end() }, nil
		}
		if err == nil {
			_ = w.Stop()
		}
		end()
		if ctx.Err() != nil {
			return nil, nil, explain(ctx.Err())
		}
		if inTime {
			return nil, nil, explain(err)
		}
	}
}

// watchNodes is one attempt; whole: all reports are there.
func (o *Operator) watchNodes(ctx context.Context) (list []Node, whole bool, err error) {
	w, stop, err := o.watchReports(ctx)
	if err != nil {
		return nil, false, err
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil, false, explain(ctx.Err())
		case <-time.After(o.quiet):
			return nil, false, nil
		case e, open := <-w.Updates():
			if !open {
				return nil, false, o.closed()
			}
			if e == nil { // all that were there
				slices.SortFunc(list, func(a, b Node) int { return strings.Compare(a.Report.Node, b.Report.Node) })
				return list, true, nil
			}
			list = append(list, node(e))
		}
	}
}

// closed says why nothing more comes: the library has given the connection up, and does not connect again.
func (o *Operator) closed() error {
	why := "it was closed here"
	if err := o.conn.LastError(); err != nil {
		why = err.Error()
	}
	return fmt.Errorf("the connection to the servers has ended (%s); the nodes go on with what they have: run the command again when the servers answer", why)
}

func node(e jetstream.KeyValueEntry) Node {
	n := Node{Received: e.Created(), Late: time.Since(e.Created()) > reportIsLate}
	if err := json.Unmarshal(e.Value(), &n.Report); err != nil || n.Report.Node != e.Key() {
		n.Report = Report{Node: e.Key(), Error: "its report cannot be read"}
		return n
	}
	n.Report.clean()
	n.Skew = n.At.Sub(e.Created())
	return n
}

// Await waits until the nodes (none: all that report in time) have applied a revision, or one has refused it or is more degraded than
// before; that is an error that names it. progress is called when more have applied it.
func (o *Operator) Await(ctx context.Context, number uint64, names []string, before []Node, progress func(applied, all int)) error {
	degraded := map[string]int{}
	for _, n := range before {
		degraded[n.Report.Node] = len(n.Degraded)
	}
	waiting := map[string]bool{}
	for _, name := range names {
		waiting[name] = true
	}
	if len(names) == 0 {
		for _, n := range before {
			if !n.Late {
				waiting[n.Report.Node] = true
			}
		}
	}
	all := len(waiting)
	w, stop, err := o.watchReports(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for len(waiting) > 0 {
		select {
		case <-ctx.Done():
			var left []string
			for name := range waiting {
				left = append(left, name)
			}
			slices.Sort(left)
			return fmt.Errorf("%d of %d nodes have not applied revision %d in time: %s", len(left), all, number, strings.Join(left, ", "))
		case e, open := <-w.Updates():
			if !open {
				return o.closed()
			}
			if e == nil { // all that were there
				continue
			}
			n := node(e)
			name := n.Report.Node
			switch {
			case !waiting[name]:
			case n.Refused == number:
				return fmt.Errorf("node %s refuses revision %d: %s", name, number, n.Error)
			case n.Revision == number && len(n.Degraded) > degraded[name]:
				return fmt.Errorf("node %s is degraded by revision %d: %s", name, number, strings.Join(n.Degraded, ", "))
			case n.Revision >= number:
				delete(waiting, name)
				if progress != nil {
					progress(all-len(waiting), all)
				}
			}
		}
	}
	return nil
}
