// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/api"
	"tidegate/internal/event"
	"tidegate/internal/instance"
	harness "tidegate/test/world"
)

// longestBehind is what a flood makes up for: where frames take longer than the rate allows it, it would never end otherwise.
const longestBehind = 20 * time.Millisecond

// synFlood sends about rate SYNs a second from unused addresses until stop is called, which returns how many.
func (w *world) synFlood(rate int) (stop func() int) {
	syns := harness.NewSYNs(w.t, w.ClientPort, w.ServerPort)
	end, done, sent := make(chan struct{}), sync.WaitGroup{}, 0
	done.Go(func() {
		owed := 0.0
		for last := time.Now(); ; {
			now := time.Now()
			owed += min(now.Sub(last), longestBehind).Seconds() * float64(rate)
			last = now
			for ; owed >= 1; owed-- {
				from := netip.AddrFrom4([4]byte{198, 18, 3, byte(3 + sent%200)})
				syns.Send(netip.AddrPortFrom(from, uint16(1024+sent/200%60000)), netip.AddrPortFrom(w.ServerAddr(false), webPort), nil)
				sent++
			}
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	var once sync.Once
	stop = func() int {
		once.Do(func() { close(end); done.Wait() })
		return sent
	}
	w.t.Cleanup(func() { stop() })
	return stop
}

// apiClient is one client for the whole test: each keeps connections open, and the API bounds them.
func (w *world) apiClient() *api.Client {
	if w.client == nil {
		w.client = api.NewClient("/run/tidegate", w.Instance)
	}
	return w.client
}

// detector queries the detector of the only service.
func (w *world) detector() (d instance.DetectorState) {
	w.t.Helper()
	var list []instance.DetectorState
	if err := w.apiClient().Do(w.t.Context(), http.MethodGet, "/v1/detector", nil, &list); err != nil || len(list) != 1 {
		w.t.Fatalf("%v: %+v", err, list)
	}
	return list[0]
}

// attackEvents are those of attacks, oldest first.
func (w *world) attackEvents() (list []event.Event) {
	w.t.Helper()
	err := w.apiClient().Lines(w.t.Context(), "/v1/events", func(line json.RawMessage) error {
		var e event.Event
		err := json.Unmarshal(line, &e)
		if e.Kind == event.AttackBegan || e.Kind == event.AttackEnded {
			list = append(list, e)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) removeStateLater() {
	for _, suffix := range []string{".events", ".events.lock", ".modes", ".sock", ".attacks"} {
		w.t.Cleanup(func() { _ = os.Remove("/run/tidegate/" + w.Instance + suffix) })
	}
}

// Nothing is answered until a flood begins, nor after it. Clients notice neither, with connections opened before,
// during and after it. A daemon that is killed leaves the state as it is, and the next one resumes it.
func TestAutomatic(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.removeStateLater()
	w.sysctl(w.Server, "net.ipv4.tcp_max_syn_backlog", "65536")
	conf := strings.Replace(w.webConfig(webPort), "mode: always", "mode: auto", 1)
	g := w.startWith(conf, "--detector-calm", "1s")
	load := w.startLoad()
	load.more(200)
	if c := w.counters(); c["cookie_sent"] != 0 || c["handshake"] < 200 || c["detect_syn"] < c["handshake"] {
		t.Fatalf("before the flood: %v", harness.NonZero(c))
	}
	began := time.Now()
	stop := w.synFlood(10_000)
	w.await("the attack to be seen", func() bool { return w.detector().On })
	t.Logf("on %v after the flood's first SYN", time.Since(began).Round(time.Millisecond))
	load.more(200)
	if c := w.counters(); c["cookie_sent"] == 0 || c["adopted"] == 0 {
		t.Errorf("under the flood: %v", harness.NonZero(c))
	}
	d := w.detector()
	if d.All || len(d.Attack.Prefixes) != 1 || d.Attack.Prefixes[0] != netip.PrefixFrom(w.ServerAddr(false), 32) {
		t.Errorf("%+v, %+v", d, d.Attack)
	}

	g.Kill()
	before := w.counters()["cookie_sent"]
	w.await("SYNs to be answered without a daemon", func() bool { return w.counters()["cookie_sent"] > before })
	w.startWith(conf, "--detector-calm", "1s")
	if !w.detector().On {
		t.Error("the next daemon does not know of the attack")
	}
	load.more(100)
	sent := stop()
	w.await("the end of the attack", func() bool { return !w.detector().On })
	load.more(200)
	c := w.counters()["cookie_sent"]
	load.more(200)
	if now := w.counters()["cookie_sent"]; now != c {
		t.Errorf("%d SYNs were answered after the attack of %d", now-c, sent)
	}
	load.noFailure()
	if e := w.attackEvents(); len(e) != 2 || e[0].Kind != event.AttackBegan || e[1].Kind != event.AttackEnded || e[0].Service != "web" || e[0].Detail["prefixes"] == "" {
		t.Errorf("events: %+v", e)
	}
}

// A hundred switches under load lose no connection.
func TestSwitching(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.removeStateLater()
	w.start(strings.Replace(w.webConfig(webPort), "mode: always", "mode: auto", 1))
	load := w.startLoad()
	c := w.apiClient()
	for i := range 100 {
		mode := []string{"always", "auto"}[i%2]
		if err := c.Do(t.Context(), http.MethodPut, "/v1/services/web/mode", map[string]string{"mode": mode}, nil); err != nil {
			t.Fatal(err)
		}
		load.more(5)
	}
	load.noFailure()
	if n := w.counters(); n["adopted"] == 0 || n["detect_syn"] == 0 {
		t.Errorf("it was not switched: %v", harness.NonZero(n))
	}
	t.Logf("%d connections", load.done.Load())
}

// startWith is start, with further arguments.
func (w *world) startWith(config string, args ...string) *gate {
	w.t.Helper()
	w.writeConfig(config)
	return &gate{w.in.Start(args...)}
}
