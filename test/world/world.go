// SPDX-License-Identifier: Apache-2.0

// Package world is the harness of the end-to-end tests: the binary under test (world.go), instances of it
// in namespaces (instance.go), servers and clients (serve.go), and the traffic that several packages send.
// It must know nothing of any role, and everything it starts ends with the test.
package world

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/dispatcher"
	"tidegate/internal/keys"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// Main removes what killed tests left, builds the binary under test, sets *tidegate to its path, calls `prepare`,
// and runs a package's tests. It always builds (Build): an old binary would be a test of
// something else. Only where there is no compiler (test/kernel), TIDEGATE_UNDER_TEST has its path. Without root, tests must skip.
func Main(m *testing.M, tidegate *string, prepare ...func() error) int {
	if os.Geteuid() != 0 {
		return m.Run()
	}
	if *tidegate = os.Getenv("TIDEGATE_UNDER_TEST"); *tidegate != "" {
		return m.Run()
	}
	if _, err := rig.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up after killed tests:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "tidegate-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	defer rig.CleanOwn()
	*tidegate = filepath.Join(dir, "tidegate")
	if err := Build(*tidegate, "tidegate/cmd/tidegate"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, p := range prepare {
		if err := p(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// BuildLab builds tidegate-lab, which measures the given tidegate, and returns its path.
func BuildLab(t *testing.T, tidegate string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "tidegate-lab")
	if err := Build(exe, "tidegate/cmd/tidegate-lab"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TIDEGATE", tidegate)
	return exe
}

// BuildDPDK builds tidegate-dpdk and sets its path for `tidegate run`.
func BuildDPDK() error {
	if out, err := exec.Command("make", "-s", "-C", "../../dpdk").CombinedOutput(); err != nil {
		return fmt.Errorf("make -C dpdk: %w: %s", err, out)
	}
	here, err := filepath.Abs("../../bin/tidegate-dpdk")
	if err != nil {
		return err
	}
	return os.Setenv("TIDEGATE_DPDK", here)
}

// NeedRoot skips a test without root; in CI it fails instead.
func NeedRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this test needs root, and CI must run it as root")
	}
	t.Skip("needs root for network namespaces")
}

// NeedDispatcher skips a test if the kernel refuses BPF programs that extend others before it has verified them, as on
// some virtual machines; with TIDEGATE_TEST_DISPATCHER set (test/kernel) it fails instead.
func NeedDispatcher(t *testing.T) {
	t.Helper()
	NeedRoot(t)
	err := dispatcher.Possible()
	switch {
	case err == nil:
	case os.Getenv("TIDEGATE_TEST_DISPATCHER") == "" && errors.Is(err, dispatcher.ErrNoExtensions) && errors.Is(err, unix.EPERM):
		t.Skipf("%v; test/kernel/run runs this test on other kernels", err)
	default:
		t.Fatal(err)
	}
}

var beside sync.Map // tests that Beside was called for

// Beside makes a test run in parallel with others; each world that the test makes may call it again.
func Beside(t *testing.T) {
	t.Helper()
	if _, already := beside.LoadOrStore(t, true); !already {
		t.Parallel()
		t.Cleanup(func() { beside.Delete(t) })
	}
}

// Patience bounds every wait for a state that must come, and every connection. It is far longer than
// anything takes, even on a busy machine; a test that needs it has failed.
const Patience = time.Minute

// slowness multiplies Patience, in an emulator (test/kernel).
var slowness = func() time.Duration {
	n, _ := strconv.Atoi(os.Getenv("TIDEGATE_TEST_SLOWNESS"))
	return time.Duration(max(1, n))
}()

// pause is how long the first polls of a wait are apart.
const pause = 10 * time.Millisecond

// Until polls for a state that must come.
func Until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	Await(t, what, Patience, pause, reached)
}

// Await is Until with its own patience and first pause.
func Await(t *testing.T, what string, patience, pause time.Duration, reached func() bool) {
	t.Helper()
	for begun := time.Now(); !reached(); {
		waited := time.Since(begun)
		if waited > patience*slowness {
			t.Fatalf("timed out waiting for: %s", what)
		}
		time.Sleep(untilNextPoll(waited, pause))
	}
}

// Many polls start a process, which takes the processors from what is awaited, and from the tests beside it: who has waited
// long can wait an eighth longer.
const (
	waitedShare  = 8
	longestPause = 200 * time.Millisecond
)

// untilNextPoll is how long the next poll of a wait is off.
func untilNextPoll(waited, pause time.Duration) time.Duration {
	return max(pause, min(waited/waitedShare, longestPause))
}

// WantKey compares the key of an epoch in a packet path with that derived from the secret in a file.
func WantKey(t *testing.T, instance, secretFile string, epoch uint64) {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(filepath.Join(plane.PinDir("/sys/fs/bpf", instance), "tg_keys"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	secret, err := keys.LoadSecret(secretFile)
	if err != nil {
		t.Fatal(err)
	}
	want := secret.EpochKey(epoch)
	var got plane.EpochKey
	if err := m.Lookup(uint32(epoch)%m.MaxEntries(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Epoch != epoch || got.Key.K0 != binary.LittleEndian.Uint64(want[:8]) || got.Key.K1 != binary.LittleEndian.Uint64(want[8:]) {
		t.Errorf("the key of epoch %d is not that of %s", epoch, filepath.Base(secretFile))
	}
}

// Output is what a process has written so far.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the output.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

// String returns all of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Families are the families of this kernel, as ipv6 or not.
func Families() []bool {
	if rig.HaveIPv6() {
		return []bool{false, true}
	}
	return []bool{false}
}

// FamilyName is for messages and names of subtests.
func FamilyName(ipv6 bool) string {
	if ipv6 {
		return "ipv6"
	}
	return "ipv4"
}
