// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bufio"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// answering is a control socket that answers each line with a text.
func answering(t *testing.T, answer map[string]string) *Control {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			_, _ = conn.Write([]byte(answer[lines.Text()]))
		}
	}()
	c, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestCounts(t *testing.T) {
	c := answering(t, map[string]string{"counts": "service 3 10 20 30 40 50 60\nunresolved 4 c6120402 2 gateway\nplace 7 100 90 3 4 c612010100000000\n" +
		"place 1023 16 0 3 6 20010db800020003\nok\n", "commit": "ok\n"})
	for range 2 {
		got, err := c.Counts()
		if err != nil {
			t.Fatal(err)
		}
		var row [schema.NumCounters]uint64
		row[schema.CounterSyn], row[schema.CounterDetectSyn], row[schema.CounterHandshake] = 10, 20, 30
		row[schema.CounterCookieSent], row[schema.CounterChallengeSent], row[schema.CounterCacheKept] = 40, 50, 60
		want := &Counts{Services: map[uint32][schema.NumCounters]uint64{3: row}, Places: []plane.Place{
			{At: 7, SYNs: 100, Handshakes: 90, Service: 3, Prefix: netip.MustParsePrefix("198.18.1.1/32")},
			{At: 1023, SYNs: 16, Service: 3, Prefix: netip.MustParsePrefix("2001:db8:2:3::/64")},
		}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if err := c.Apply([]string{PlaceLine(7, true)}); err != nil { // the answers stay in step
			t.Error(err)
		}
	}
}

// What cannot be read is an error, after which the answers are still in step.
func TestCountsThatAreNone(t *testing.T) {
	for _, line := range []string{"", "service", "service 1 2 3", "service 1 2 3 4 5 6 7 8", "service x 0 0 0 0 0 0", "place 1 1 1 1 4", "place 1 1 1 1 4 c6",
		"place 1 1 1 1 4 c61201010000000000", "place 1 1 1 1 4 c61201010000000g", "place", "plaice 1 1 1 1 4 c612010100000000"} {
		c := answering(t, map[string]string{"counts": line + "\nok\n", "commit": "ok\n"})
		if _, err := c.Counts(); err == nil || !strings.Contains(err.Error(), "one version") {
			t.Errorf("%q: %v", line, err)
		}
		if err := c.Apply(nil); err != nil {
			t.Errorf("after %q: %v", line, err)
		}
	}
}
