// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/live"
	harness "tidegate/test/world"
)

// someTraffic sends SYNs from many addresses and makes connections until the test ends.
func (w *world) someTraffic() {
	w.t.Helper()
	syns := harness.NewSYNs(w.t, w.ClientPort, w.ServerPort)
	stop, done := make(chan struct{}), make(chan struct{})
	w.t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for port := uint16(1024); port < 60000; port++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			syns.Send(netip.AddrPortFrom(w.ClientAddr(false), port), netip.AddrPortFrom(w.ServerAddr(false), webPort), nil)
			if port%16 == 0 {
				_ = harness.Ping(harness.Dial(w.Client, netip.AddrPortFrom(w.ServerAddr(false), webPort)))
			}
		}
	}()
}

// `tidegate top` in a terminal of 80 by 24: it shows rates, reasons and cost, keys work, and q restores the terminal.
func TestTop(t *testing.T) {
	if out, err := exec.Command("tmux", "-V").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s; tools/deps.sh test installs tmux", err, out)
	}
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.someTraffic()
	socket := filepath.Join(w.dir, "tmux")
	tmux := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", tidegate+" top --instance "+w.Instance+"; echo left with $?; exec cat")
	defer exec.Command("tmux", "-S", socket, "kill-server").Run()
	screen := func() string { return tmux("capture-pane", "-p") }
	shows := func(what string, words ...string) {
		t.Helper()
		var last string
		defer func() {
			if t.Failed() {
				t.Logf("the screen:\n%s", last)
			}
		}()
		w.await(what, func() bool {
			last = screen()
			for _, word := range words {
				if !strings.Contains(last, word) {
					return false
				}
			}
			return true
		})
	}
	shows("services, reasons and cost", "web", "always", "cookie_sent", "Cost", "ns a packet", "started", "█")
	for i, l := range strings.Split(screen(), "\n") {
		if n := len([]rune(l)); n > 80 {
			t.Errorf("line %d has %d columns: %s", i, n, l)
		}
	}
	tmux("send-keys", "?")
	shows("the help", "clients that have proven")
	tmux("send-keys", "?")
	tmux("send-keys", "Space")
	shows("the pause", "paused at")
	tmux("send-keys", "q")
	shows("the end", "left with 0")
}

// `tidegate web` serves the page and its data to clients that name an address or localhost, and changes nothing.
func TestWeb(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.someTraffic()
	p := w.webPage()
	get := func(path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, p+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(_ context.Context, network, address string) (c net.Conn, err error) {
			err = w.Server.Do(func() error {
				c, err = net.Dial(network, address)
				return err
			})
			return c, err
		}}}
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	if code, body := get("", ""); code != 200 || !strings.Contains(body, "<title>Tidegate</title>") {
		t.Errorf("the page: %d: %s", code, body)
	}
	if code, _ := get("", "attacker.example"); code != http.StatusMisdirectedRequest {
		t.Errorf("a page of another name that leads here got %d, want 421", code)
	}
	if code, _ := get("v1/reload", ""); code != http.StatusNotFound {
		t.Errorf("a path of the API got %d, want 404", code)
	}
	var v live.View
	w.await("rates, reasons and cost", func() bool {
		_, body := get("view", "")
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if len(v.Points) == 0 {
			return false
		}
		s := v.Points[len(v.Points)-1]
		return len(s.Services) == 1 && s.Services[0].SYN > 0 && s.Services[0].Answered > 0 && len(s.Services[0].Reasons) > 0 && len(s.Cost) > 0 && len(v.Events) > 0
	})
	last := v.Points[len(v.Points)-1].Time
	w.await("only what is new", func() bool {
		_, body := get(fmt.Sprintf("view?after=%d", last.UnixMilli()), "")
		var fresh live.View
		if err := json.Unmarshal([]byte(body), &fresh); err != nil {
			t.Fatal(err)
		}
		for _, p := range fresh.Points {
			if !p.Time.After(last) {
				t.Fatalf("a point of %v after %v", p.Time, last)
			}
		}
		return len(fresh.Points) > 0
	})
}

// webPage starts `tidegate web` and returns its address.
func (w *world) webPage() string {
	w.t.Helper()
	p := w.in.LaunchCommand("web", "--instance", w.Instance, "--listen", "127.0.0.1:0")
	p.Await("the address", func() bool { return strings.HasSuffix(p.Stdout.String(), "/\n") })
	w.t.Cleanup(p.Interrupt)
	return strings.TrimSpace(p.Stdout.String())
}

// The page in a real browser; `make test-web` runs this.
func TestWebInBrowser(t *testing.T) {
	chromium := os.Getenv("TIDEGATE_CHROMIUM")
	if chromium == "" {
		t.Skip("TIDEGATE_CHROMIUM names no browser; `make test-web` installs one")
	}
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.someTraffic()
	page := w.webPage()
	for _, width := range []int{1200, 390} {
		shot := filepath.Join(w.dir, fmt.Sprintf("page-%d.png", width))
		if keep := os.Getenv("TIDEGATE_SCREENSHOTS"); keep != "" {
			shot = filepath.Join(keep, filepath.Base(shot))
		}
		common := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + filepath.Join(w.dir, "profile"), "--hide-scrollbars",
			fmt.Sprintf("--window-size=%d,1400", width), "--timeout=8000", "--virtual-time-budget=8000"}
		var dom []byte
		if err := w.Server.Do(func() (err error) {
			if out, err := exec.Command(chromium, append(common, "--screenshot="+shot, page)...).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			dom, err = exec.Command(chromium, append(common, "--dump-dom", page)...).Output()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`class="syn"`, "cookie_sent", "ns</b> a packet", "started", `data-points="`} {
			if !strings.Contains(string(dom), want) {
				t.Errorf("at %d pixels the page does not show %q", width, want)
			}
		}
		if info, err := os.Stat(shot); err != nil || info.Size() < 10_000 {
			t.Errorf("no screenshot: %v", err)
		}
	}
}
