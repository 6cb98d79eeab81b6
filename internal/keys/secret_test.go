// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const goodHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func writeFile(t *testing.T, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadSecret(t *testing.T) {
	for _, content := range []string{goodHex, goodHex + "\n", strings.ToUpper(goodHex) + "\n"} {
		s, err := LoadSecret(writeFile(t, content, 0o400))
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		if *s != *counting() {
			t.Errorf("%q: wrong bytes", content)
		}
	}
}

func TestLoadSecretRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, path, want string }{
		{"group may read", writeFile(t, goodHex, 0o640), "chmod 600 "},
		{"others may read", writeFile(t, goodHex, 0o604), "mode 0604"},
		{"others may write", writeFile(t, goodHex, 0o602), "chmod 600 "},
		{"missing", filepath.Join(dir, "none"), "tidegate keygen"},
		{"directory", dir, "not a regular file"},
		{"fifo", fifo, "not a regular file"},
		{"empty", writeFile(t, "", 0o600), "holds 0 characters"},
		{"short", writeFile(t, goodHex[:62]+"\n", 0o600), "holds 62 characters"},
		{"one digit more", writeFile(t, goodHex+"0", 0o600), "holds more"},
		{"two lines", writeFile(t, goodHex+"\n\n", 0o600), "holds more"},
		{"long", writeFile(t, strings.Repeat(goodHex, 9), 0o600), "holds more"},
		{"not hex", writeFile(t, "zz"+goodHex[2:], 0o600), "not a hex digit"},
	} {
		_, err := LoadSecret(tc.path)
		if err == nil {
			t.Errorf("%s: accepted", tc.name)
			continue
		}
		msg := err.Error()
		if !errors.Is(err, ErrSecret) || !strings.Contains(msg, tc.want) || strings.Contains(msg, "\n") {
			t.Errorf("%s: %q does not say %q in one line", tc.name, msg, tc.want)
		}
		if strings.Contains(msg, goodHex[40:]) {
			t.Errorf("%s: the error shows the secret", tc.name)
		}
	}
}

func TestLoadSecretForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := writeFile(t, goodHex, 0o600)
	if err := os.Chown(path, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadSecret(path); err == nil || !strings.Contains(err.Error(), "chown root") {
		t.Errorf("foreign owner: %v", err)
	}
}

// A secret that root makes in the directory of the units' group is their user's, and root reads it, too: `tidegate check`.
func TestServiceUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	before := serviceIDs
	defer func() { serviceIDs = before }()
	serviceIDs = func() (int, int, bool) { return 12345, 12346, true }
	for gid, owner := range map[int]uint32{12346: 12345, 0: 0} {
		dir := t.TempDir()
		if err := os.Chown(dir, 0, gid); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "secret")
		if err := CreateSecret(path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != owner || info.Mode().Perm() != 0o600 {
			t.Errorf("in a directory of group %d: owner %d, mode %o; want owner %d", gid, got, info.Mode().Perm(), owner)
		}
		if _, err := LoadSecret(path); err != nil {
			t.Errorf("root, owner %d: %v", owner, err)
		}
	}
	serviceIDs = func() (int, int, bool) { return 0, 0, false }
	path := filepath.Join(t.TempDir(), "secret")
	if err := CreateSecret(path); err != nil {
		t.Errorf("without that user: %v", err)
	}
}

func TestCreateSecret(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	if err := CreateSecret(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || info.Size() != 65 {
		t.Errorf("mode %v, size %d", info.Mode(), info.Size())
	}
	first, err := LoadSecret(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := CreateSecret(path); err == nil || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("second write: %v", err)
	}
	again, err := LoadSecret(path)
	if err != nil || *again != *first {
		t.Errorf("the secret changed: %v", err)
	}
	other := filepath.Join(dir, "other")
	if err := CreateSecret(other); err != nil {
		t.Fatal(err)
	}
	second, err := LoadSecret(other)
	if err != nil || *second == *first || *second == (Secret{}) {
		t.Errorf("secrets are not random: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if err := CreateSecret(link); err == nil {
		t.Error("followed a dangling link")
	}
	if err := CreateSecret(filepath.Join(dir, "no", "secret")); err == nil || !strings.Contains(err.Error(), "mkdir -p") {
		t.Errorf("missing directory: %v", err)
	}
}
