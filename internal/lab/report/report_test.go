// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

// sample is a sweep in which one defence could not run.
func sample() *trial.Sweep {
	s := &trial.Sweep{Kernel: "6.0", CPU: "test", CPUs: 2, Timeout: 2000, Clients: 3, Load: 100,
		Defences: defences.All(), Rates: []string{"1k", "max"}}
	for i, d := range s.Defences {
		for j, rate := range s.Rates {
			p := trial.Point{Defence: d, Rate: rate}
			if d == defences.Nft {
				p.Error = "no <nft> here"
			} else {
				p.Result = &trial.Result{Defence: d, SYNPPS: []float64{1000, 2e6}[j], Success: float64(min(i, 1)),
					Latency: load.Quantiles{P50: 0.1, P99: 0.5}}
			}
			s.Points = append(s.Points, p)
		}
	}
	return s
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
	for _, want := range []string{"Tidegate host", "no &lt;nft&gt; here", "100 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(text, "data:image/png;base64,"); n != len(plots) {
		t.Errorf("%d pictures in the page, want %d", n, len(plots))
	}
	for _, bad := range []string{"src=\"http", "href=", "ZgotmplZ", "NaN"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q; it must be self-contained", bad)
		}
	}
	results, err := os.ReadFile(filepath.Join(dir, ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var back trial.Sweep
	if err := json.Unmarshal(results, &back); err != nil || len(back.Points) != 8 {
		t.Errorf("results: %d points, %v", len(back.Points), err)
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

// A sweep in which nothing worked still makes a page that says so.
func TestWriteWithoutResults(t *testing.T) {
	s := sample()
	for i := range s.Points {
		s.Points[i].Result, s.Points[i].Error = nil, "broken"
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
	if len(lines) != 5 || !strings.Contains(lines[3], "2.00M") || !strings.Contains(lines[len(lines)-1], "nft could not run") {
		t.Errorf("table:\n%s", b.String())
	}
}

func TestLagNote(t *testing.T) {
	s := sample()
	if note := lagNote(s); note != "" {
		t.Errorf("a note without cause: %s", note)
	}
	s.Points[0].Result.StartLagMax = 25
	if note := lagNote(s); !strings.Contains(note, "25 ms") {
		t.Errorf("note %q, want it to name 25 ms", note)
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
