// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CreatePrivate writes text to a new file of mode 0600 and syncs it.
// It never overwrites and never follows a link. Errors are ErrSecret.
func CreatePrivate(path string, text []byte) error {
	if err := forbidDumps(); err != nil {
		return err
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
	if err := errors.Join(handOver(f, path), writePrivate(f, text)); err != nil {
		f.Close()
		os.Remove(path)
		return fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	return nil
}

func writePrivate(f *os.File, text []byte) error {
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// ReadPrivate reads at most limit bytes of a regular file that is owned by root
// or by us (by root, also of one that the units' user owns) and inaccessible to others. maker is the command that makes such a
// file, for the error messages. The caller clears the result.
func ReadPrivate(path string, limit int, maker string) ([]byte, error) {
	if err := forbidDumps(); err != nil {
		return nil, err
	}
	// O_NONBLOCK: opening a FIFO must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w %s does not exist; run `%s %s`", ErrSecret, path, maker, path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w %s cannot be read by uid %d; run `chown %s %s`, if the unit of the package runs as that user", ErrSecret, path, os.Geteuid(), ServiceUser, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	defer f.Close()
	if err := checkPrivate(f, path, maker); err != nil {
		return nil, err
	}
	text := make([]byte, limit)
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		clear(text)
		return nil, fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	return text[:n], nil
}

func checkPrivate(f *os.File, path, maker string) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrSecret, path, reason(err))
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w %s is not a regular file; name a file made by `%s`", ErrSecret, path, maker)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%w %s has mode %04o and others may use it; run `chmod 600 %s`", ErrSecret, path, perm, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && !trusts(int(st.Uid)) {
		return fmt.Errorf("%w %s belongs to uid %d; run `chown root %s`", ErrSecret, path, st.Uid, path)
	}
	return nil
}
