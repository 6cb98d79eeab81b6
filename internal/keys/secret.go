package keys

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrSecret is the class of everything that can be wrong with a secret file.
var ErrSecret = errors.New("secret file")

// secretFileMax bounds what is read of a file that may be anything.
const secretFileMax = 2*SecretLen + 2

// CreateSecret writes a new random secret to path: 64 hex digits and a newline,
// mode 0600. It never overwrites and never follows a link.
func CreateSecret(path string) error {
	var s Secret
	defer s.Zero()
	if _, err := rand.Read(s[:]); err != nil {
		return fmt.Errorf("%w %s: no randomness: %w", ErrSecret, path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w %s exists and is not overwritten; choose another name or remove it first", ErrSecret, path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w %s: the directory does not exist; run `mkdir -p -m 0700 %s`", ErrSecret, path, filepath.Dir(path))
	case err != nil:
		return fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	if err := writeSecret(f, &s); err != nil {
		f.Close()
		os.Remove(path)
		return fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	return nil
}

func writeSecret(f *os.File, s *Secret) error {
	text := make([]byte, 2*SecretLen+1)
	defer clear(text)
	hex.Encode(text, s[:])
	text[2*SecretLen] = '\n'
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// LoadSecret reads the secret at path. The file must be a regular one, owned
// by root or by us, closed to everybody else, and hold 64 hex digits.
func LoadSecret(path string) (*Secret, error) {
	// O_NONBLOCK: opening a FIFO must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w %s does not exist; run `tidegate keygen %s`", ErrSecret, path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	defer f.Close()
	if err := checkSecretFile(f, path); err != nil {
		return nil, err
	}
	text := make([]byte, secretFileMax)
	defer clear(text)
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	return parseSecret(path, text[:n])
}

func checkSecretFile(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w %s is not a regular file; name a file made by `tidegate keygen`", ErrSecret, path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%w %s has mode %04o and others may use it; run `chmod 600 %s`", ErrSecret, path, perm, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w %s belongs to uid %d; run `chown root %s`", ErrSecret, path, st.Uid, path)
	}
	return nil
}

// parseSecret decodes 64 hex digits, optionally followed by one newline. Its
// errors tell lengths and positions, never content.
func parseSecret(path string, text []byte) (*Secret, error) {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	if len(text) != 2*SecretLen {
		have := fmt.Sprintf("%d characters", len(text))
		if len(text) > 2*SecretLen {
			have = "more"
		}
		return nil, fmt.Errorf("%w %s must hold exactly %d hex digits but holds %s; make one with `tidegate keygen`",
			ErrSecret, path, 2*SecretLen, have)
	}
	s := new(Secret)
	if _, err := hex.Decode(s[:], text); err != nil {
		s.Zero()
		return nil, fmt.Errorf("%w %s holds a character that is not a hex digit; make one with `tidegate keygen`", ErrSecret, path)
	}
	return s, nil
}

// reason strips the path that os errors repeat.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
