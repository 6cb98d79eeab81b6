// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/trial"
)

func TestWriteConnect(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	in := &trial.ConnectTimes{Kernel: "6.0", Rate: "20k", Load: 400, TimeoutMs: 10000, Connections: 4, NotOffered: []string{"proxy-<none>"},
		Curves: []trial.ConnectCurve{
			{Name: "first", Backlog: 128, Connected: 1, Within500: 0.25, P10: v(3), Times: []float64{3}},
			{Name: "second", Connected: 4, Within500: 1, P10: v(1), P50: v(1), P90: v(1), P99: v(1), Times: []float64{1, 1, 1, 1}},
			{Name: "third", Error: "no <such> thing", Times: []float64{}},
		}}
	dir := t.TempDir()
	if err := WriteConnect(dir, in); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	svg := xml.NewDecoder(strings.NewReader(read(ConnectPlotFile)))
	paths, texts := 0, ""
	for {
		token, err := svg.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is not XML: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			if x.Name.Local == "path" {
				paths++
			}
		case xml.CharData:
			texts += string(x) + "|"
		}
	}
	if paths < len(in.Curves) || !strings.Contains(texts, "second") {
		t.Errorf("%d lines, texts %q", paths, texts)
	}
	page := read(PageFile)
	for _, want := range []string{"<svg", "never", "no &lt;such&gt; thing", "proxy-&lt;none&gt;", "25.0 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"src=\"http", "ZgotmplZ", "NaN"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	var back trial.ConnectTimes
	if err := json.Unmarshal([]byte(read(ResultsFile)), &back); err != nil || len(back.Curves) != 3 || back.Curves[0].P50 != nil {
		t.Errorf("%+v, %v", back, err)
	}
}
