// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/keys"
)

const (
	twoServices = "role: edge\ninterfaces: [a, b]\ninside: [b]\nservices: [{name: web, ports: [80]}, {name: mail, ports: [25]}]\n"
	oneService  = "role: edge\ninterfaces: [a, b]\ninside: [b]\nservices: [{name: web, ports: [8080]}]\n"
	otherEpoch  = "role: edge\ninterfaces: [a, b]\ninside: [b]\nepoch: 4s\nservices: [{name: web, ports: [80]}]\n"
)

// running is an instance with two services, in the state in which Open leaves it.
func running(t *testing.T) (b *Instance, change func(text string)) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "tidegate.yaml")
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	change = func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text+"secret_file: "+dir+"/secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change(twoServices)
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	b = &Instance{Opt: Options{ConfigPath: path}, Log: slog.New(slog.DiscardHandler), Cfg: cfg, Numbers: NewNumbers()}
	b.Numbers.Assign(cfg.Services)
	return b, change
}

// reloading has a role's part of a reload.
func reloading(t *testing.T, b *Instance, write func(removed []uint32) error) Reloading {
	t.Helper()
	secret, err := LoadSecrets(b.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	return Reloading{Secret: secret, Keys: &keys.Loader{}, Write: write, Load: func() error { return nil }, State: func() error { return nil }}
}

func TestReload(t *testing.T) {
	b, change := running(t)
	mail := b.Numbers.ID("mail")
	change(oneService)
	var written []uint16
	err := b.Reload(reloading(t, b, func(removed []uint32) error {
		if !slices.Equal(removed, []uint32{mail}) {
			t.Errorf("forgets %v, want %d", removed, mail)
		}
		written = append(written, b.Cfg.Services[0].Ports[0].First)
		return nil
	}))
	if err != nil || !slices.Equal(written, []uint16{8080}) {
		t.Errorf("%v, wrote ports %v; want 8080 once", err, written)
	}
}

// Who hears of a reload finds it in the status: that is saved before.
func TestReloadIsSavedBeforeItIsTold(t *testing.T) {
	b, change := running(t)
	change(oneService)
	var told strings.Builder
	b.Log = slog.New(slog.NewTextHandler(&told, nil))
	r := reloading(t, b, func([]uint32) error { return nil })
	saved := 0
	r.State = func() error {
		saved++
		if told.Len() != 0 {
			t.Errorf("told before: %s", told.String())
		}
		return nil
	}
	if err := b.Reload(r); err != nil || saved != 1 || !strings.Contains(told.String(), "reloaded") {
		t.Errorf("%v; saved %d times; told: %s", err, saved, told.String())
	}
	r.State = func() error { return errors.New("the disk is full") }
	told.Reset()
	change(twoServices)
	if err := b.Reload(r); err == nil || told.Len() != 0 {
		t.Errorf("not saved: %v; told: %s", err, told.String())
	}
}

// What cannot change is named, and nothing is written; the same for a secret that would break
// handshakes under way.
func TestReloadRefused(t *testing.T) {
	for name, change := range map[string]string{
		"epoch, clock_skew changed": otherEpoch,
		"clock_skew changed":        oneService + "clock_skew: 1s\n",
		"secret file":               "",
	} {
		b, write := running(t)
		old, r := b.Cfg, reloading(t, b, func([]uint32) error { t.Error("written"); return nil })
		if write(change); change == "" {
			write(twoServices)
			if err := os.WriteFile(b.Cfg.SecretFile, []byte(strings.Repeat("cd", 32)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Reload(r); err == nil || !strings.HasPrefix(err.Error(), name) || b.Cfg != old {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// After a failed write the old state is written.
func TestReloadThatFails(t *testing.T) {
	b, change := running(t)
	old, mail := b.Cfg, b.Numbers.ID("mail")
	change(oneService)
	full := errors.New("the map is full")
	writes := 0
	err := b.Reload(reloading(t, b, func([]uint32) error {
		writes++
		if writes == 1 {
			return full
		}
		if b.Cfg != old {
			t.Error("the second write is not of the old configuration")
		}
		return nil
	}))
	if !errors.Is(err, full) || writes != 2 || b.Cfg != old || b.Numbers.ID("mail") != mail {
		t.Errorf("%v after %d writes; mail is %d, was %d", err, writes, b.Numbers.ID("mail"), mail)
	}
}
