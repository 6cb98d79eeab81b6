// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The pictures of docs/watching.md: `top` and `web` during a flood that has just begun; `make screenshots` runs this.
func TestScreenshots(t *testing.T) {
	dir, chromium := os.Getenv("TIDEGATE_DOCS_IMAGES"), os.Getenv("TIDEGATE_CHROMIUM")
	if dir == "" || chromium == "" {
		t.Skip("TIDEGATE_DOCS_IMAGES names no directory; `make screenshots` does")
	}
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.launch(strings.Replace(w.webConfig(webPort), "mode: always", "mode: auto", 1))
	g.AwaitReady()
	l := w.startLoad()
	defer l.end()
	page := w.webPage()
	browser := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+filepath.Join(w.dir, "profile"), "--hide-scrollbars",
		"--window-size=1200,820", "--timeout=8000", "--virtual-time-budget=8000", "--screenshot="+filepath.Join(dir, "web.png"), page)
	socket := filepath.Join(w.dir, "tmux")
	tmux := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", "80", "-y", "24", tidegate, "top", "--instance", w.Instance)
	defer exec.Command("tmux", "-S", socket, "kill-server").Run()
	history := func(seconds int) { // that both programs have seen
		since := time.Now()
		w.await("some history", func() bool { return time.Since(since) > time.Duration(seconds)*time.Second })
	}
	history(12)
	stop := w.synFlood(20_000)
	w.await("the attack is noticed", func() bool { return w.detector().On })
	history(9)
	stop()
	history(5)
	stop = w.synFlood(8_000)
	history(7)
	if err := os.WriteFile(filepath.Join(dir, "top.svg"), terminal(tmux("capture-pane", "-p")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.Server.Do(func() error {
		if out, err := browser.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	stop()
}

// terminal draws a terminal's screen as an SVG image.
func terminal(screen string) []byte {
	const across, down, margin = 9, 19, 12
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	var b strings.Builder
	width, height := 80*across+2*margin, 24*down+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="tidegate top">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="6" fill="#14181d"/>`+"\n", width, height)
	fmt.Fprintln(&b, `<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="15" fill="#d7dde4">`)
	for i, l := range lines {
		if l = strings.TrimRight(l, " "); l != "" {
			fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n", margin, margin+(i+1)*down-5, across*len([]rune(l)), strings.ReplaceAll(html.EscapeString(l), " ", "\u00a0"))
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return []byte(b.String())
}
