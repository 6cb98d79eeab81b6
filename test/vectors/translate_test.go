// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"tidegate/internal/vectors"
)

// translation is one vector of vectors/proxy/translate.yaml.
type translation struct {
	Name string `yaml:"name"`
	Why  string `yaml:"why"`
	Flow struct {
		SeqDelta   uint32 `yaml:"seq_delta"`
		TSDelta    uint32 `yaml:"ts_delta"`
		Timestamps bool   `yaml:"timestamps"`
		WindowUp   uint8  `yaml:"window_up"`
		WindowDown int8   `yaml:"window_down"`
	} `yaml:"flow"`
	ToClient bool          `yaml:"to_client"`
	In       vectors.Bytes `yaml:"in"`
	Out      vectors.Bytes `yaml:"out"`
}

func loadTranslations(t *testing.T, folder string) []translation {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, folder, "translate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Format  int           `yaml:"format"`
		About   string        `yaml:"about"`
		Vectors []translation `yaml:"vectors"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

// translateAll checks a plane against every vector, byte by byte, and expects that every
// canary fails.
func translateAll(t *testing.T, translate func(*translation) ([]byte, error)) {
	t.Helper()
	all := loadTranslations(t, "proxy")
	if len(all) < 90 {
		t.Fatalf("only %d vectors", len(all))
	}
	for i := range all {
		v := &all[i]
		out, err := translate(v)
		if err != nil || !bytes.Equal(out, v.Out) {
			t.Errorf("%s: %v\n  in %x\n got %x\nwant %x\n(%s)", v.Name, err, []byte(v.In), out, []byte(v.Out), v.Why)
		}
		// Only a RST without ACK to the server has nothing that must change.
		if bytes.Equal(v.In, v.Out) && !strings.HasPrefix(v.Name, "rst-v") && !strings.HasPrefix(v.Name, "rst-ts-v") {
			t.Errorf("%s changes nothing", v.Name)
		}
	}
	canaries := loadTranslations(t, "canary/proxy")
	if len(canaries) < 10 {
		t.Errorf("only %d canaries", len(canaries))
	}
	for i := range canaries {
		v := &canaries[i]
		if out, err := translate(v); err != nil || bytes.Equal(out, v.Out) {
			t.Errorf("canary %s passed, and must fail: %s (%v)", v.Name, v.Why, err)
		}
	}
	t.Logf("%d segments, %d canaries", len(all), len(canaries))
}

// The burst pipeline, each segment in the middle of a burst of others.
func TestDPDKTranslatesTheVectors(t *testing.T) {
	g := newDPDKGate(t, 0, "")
	vs := load(t, dir)
	// A service at port 80, which then is to be translated.
	if err := g.obey(append(g.worldOf(&vs[0]), "service 1 1460 1440 65535 7 1 1 1 2 0 0 0")...); err != nil {
		t.Fatal(err)
	}
	var client4, client6 []byte // segments that name the connections
	for _, v := range loadTranslations(t, "proxy") {
		switch v.Name {
		case "bare-v4-to-server":
			client4 = v.In
		case "bare-v6-to-server":
			client6 = v.In
		}
	}
	translateAll(t, func(v *translation) ([]byte, error) {
		f, client := v.Flow, client4
		if strings.Contains(v.Name, "-v6-") {
			client = client6
		}
		answers, err := g.askAll([]string{fmt.Sprintf("flow %d %d %d %d %d %x", f.SeqDelta, f.TSDelta, bit(f.Timestamps),
			f.WindowUp, f.WindowDown, client), fmt.Sprintf("packet %x", v.In)})
		if err != nil {
			return nil, err
		}
		r, err := dpdkResult(answers[1])
		if err == nil && r.Verdict != vectors.Pass {
			err = fmt.Errorf("verdict %s", r.Verdict)
		}
		return r.Out, err
	})
}

// core/translate.h itself, compiled natively and under the sanitizers.
func TestNativeTranslatesTheVectors(t *testing.T) {
	g := newNativeGate(t)
	translateAll(t, func(v *translation) ([]byte, error) {
		f := v.Flow
		words, err := g.ask("translate %d %d %d %d %d %d %x", bit(v.ToClient), f.SeqDelta, f.TSDelta, bit(f.Timestamps),
			f.WindowUp, f.WindowDown, []byte(v.In))
		if err != nil {
			return nil, err
		}
		if len(words) != 2 || words[0] != "tx" {
			return nil, fmt.Errorf("answer %q", words)
		}
		return hex.DecodeString(words[1])
	})
}
