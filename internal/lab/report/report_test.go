// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/overload"
)

// sample is a run in which one defence failed.
func sample() *overload.Result {
	r := &overload.Result{Kernel: "6.0", CPU: "test", CPUs: 2, Timeout: 1000, Clients: 3, Load: 100, Wire: overload.Point{Offered: 4e6, Processed: 3e6}}
	for i, name := range append(defences.All(), defences.NftProxy, "proxy-cookie", defences.Edge) {
		d := &overload.Defence{Name: name, Points: []overload.Point{}}
		r.Defences = append(r.Defences, d)
		if name == defences.Nft {
			d.Error = "no <nft> here"
			continue
		}
		for _, offered := range []float64{0, 1000, 1e5, 2e6} {
			p := overload.Point{Offered: offered, Processed: offered, Requests: 100, Success: float64(min(i, 1)), Latency: load.Quantiles{P50: 0.1, P99: 0.5}}
			d.Points = append(d.Points, p)
		}
		d.Capacity = overload.Capacity{Median: 1e5 * float64(i), Low: 0.9e5 * float64(i), High: 1.1e5 * float64(i)}
		d.AtMax, d.SYNNs = &d.Points[3], 100*float64(i)
		if i > 0 {
			d.AtTen = &d.Points[2]
		}
	}
	return r
}

func TestWriteIsComplete(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, sample()); err != nil {
		t.Fatal(err)
	}
	for _, p := range plots {
		data, err := os.ReadFile(filepath.Join(dir, p.File))
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", p.File, err)
		}
		if colours(img) < 3 {
			t.Errorf("%s is blank", p.File)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, PageFile))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, want := range []string{"Tidegate host", "no &lt;nft&gt; here", "100 %", "3.0 times as many as kernel SYN cookies (100k)", "3.00M of 4.00M", "270k to 330k"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(text, "data:image/png;base64,"); n != len(plots) {
		t.Errorf("%d pictures in the page, want %d", n, len(plots))
	}
	text = regexp.MustCompile(`base64,[^"]*`).ReplaceAllString(text, "") // base64 contains arbitrary words
	for _, bad := range []string{"src=\"http", "href=", "ZgotmplZ", "NaN"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q; it must be self-contained", bad)
		}
	}
	results, err := os.ReadFile(filepath.Join(dir, ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var back overload.Result
	if err := json.Unmarshal(results, &back); err != nil || len(back.Defences) != 7 || len(back.Find(defences.Host).Points) != 4 {
		t.Errorf("results: %d defences, %v", len(back.Defences), err)
	}
}

func colours(img image.Image) int {
	seen := map[[3]uint32]bool{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 3 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r, g, b}] = true
		}
	}
	return len(seen)
}

// A run without any result still makes a page, which says so.
func TestWriteWithoutResults(t *testing.T) {
	s := sample()
	for _, d := range s.Defences {
		*d = overload.Defence{Name: d.Name, Error: "broken"}
	}
	if err := Write(t.TempDir(), s); err != nil {
		t.Fatal(err)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, sample()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 12 || !strings.Contains(b.String(), "The server behind Tidegate edge used 0.0 % of its processor without a flood, and 0.0 % at 2.00M SYN/s") || !strings.Contains(lines[3], "300k") || !strings.Contains(lines[7], "nft could not run") || !strings.Contains(lines[8], "3.0 times") {
		t.Errorf("table:\n%s", b.String())
	}
}

func TestLagNote(t *testing.T) {
	s := sample()
	if note := lagNote(s); note != "" {
		t.Errorf("a note without cause: %s", note)
	}
	s.Defences[3].Points[0].LagMax = 75
	if note := lagNote(s); !strings.Contains(note, "75 ms") {
		t.Errorf("note %q, want it to name 75 ms", note)
	}
}

func TestPercentNeverHidesALoss(t *testing.T) {
	for share, want := range map[float64]string{1: "100 %", 0.99999: "99.999 %", 0.9999999: "99.999 %", 0.5: "50.0 %", 0: "0.0 %"} {
		if got := percent(share); got != want {
			t.Errorf("percent(%v) = %q, want %q", share, got, want)
		}
	}
}

func TestLogTicksLabelDecades(t *testing.T) {
	var labels []string
	for _, tick := range logTicks(rateLabel).Ticks(2.9, 6.2) {
		if tick.Label != "" {
			labels = append(labels, tick.Label)
		}
	}
	if got := strings.Join(labels, " "); got != "1k 10k 100k 1M" {
		t.Errorf("labels %q", got)
	}
}
