// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
)

// The child is this test binary again, as a manager with a store on disk.
const (
	childDir  = "TIDEGATE_TEST_BINDINGS_DIR"
	childHub  = "TIDEGATE_TEST_BINDINGS_HUB"
	childName = "child"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := runChild(dir, os.Getenv(childHub)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild says on stdout what it loads and gets, a line each, until it is killed.
func runChild(dir, hub string) error {
	s, rec, err := store.Open(dir, storeOptions(), time.Now())
	if err != nil {
		return err
	}
	fmt.Printf("loaded %d cut %d\n", rec.Loaded, rec.BytesCut)
	_, err = Start(context.Background(), Options{Store: s, Key: privateKey(childName),
		Neighbours: []Neighbour{{Addr: hub, Key: publicKey("hub")}},
		OnRecord:   func(r *binding.Record) { fmt.Printf("got %x\n", r.Digest()) }})
	if err != nil {
		return err
	}
	select {}
}

type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	first string
}

func startChild(t *testing.T, dir, hub string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childHub+"="+hub)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	c := &child{t: t, cmd: cmd, lines: bufio.NewScanner(out)}
	over := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer over.Stop()
	if !c.lines.Scan() {
		t.Fatal("the child says nothing")
	}
	c.first = c.lines.Text()
	return c
}

// await reads until the child has got all records.
func (c *child) await(list ...*binding.Record) {
	c.t.Helper()
	missing := map[string]bool{}
	for _, r := range list {
		missing[fmt.Sprintf("got %x", r.Digest())] = true
	}
	over := time.AfterFunc(patience, func() { c.cmd.Process.Kill() })
	defer over.Stop()
	for len(missing) > 0 {
		if !c.lines.Scan() {
			c.t.Fatalf("the child ended and lacks %d of %d records", len(missing), len(list))
		}
		delete(missing, c.lines.Text())
	}
}

// TestKilledAndRestarted: kill -9, updates meanwhile, and a new start from disk.
func TestKilledAndRestarted(t *testing.T) {
	hub := start(t, "hub", memory(t), Options{Listen: "127.0.0.1:0", Neighbours: []Neighbour{{Key: publicKey(childName)}}})
	defer hub.Close()
	publish := func(name string, serial uint64) *binding.Record {
		r := bind(t, name, serial, "ifp=192.0.2.1:1")
		if _, err := hub.Publish(r.Raw()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	var before []*binding.Record
	for i := range 50 {
		before = append(before, publish(fmt.Sprint("m", i), 1))
	}
	dir := filepath.Join(t.TempDir(), "bindings")
	c := startChild(t, dir, hub.Addr().String())
	if c.first != "loaded 0 cut 0" {
		t.Errorf("first start: %s", c.first)
	}
	c.await(before...)
	c.cmd.Process.Kill()
	c.cmd.Wait()

	after := []*binding.Record{publish("m0", 2), publish("new", 1)}
	c = startChild(t, dir, hub.Addr().String())
	if c.first != "loaded 50 cut 0" {
		t.Errorf("after kill -9: %s; want all 50 records", c.first)
	}
	c.await(after...)
}
