// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"tidegate/internal/binding"
)

// The file: magic, then records, each as length (4 bytes, big-endian), CRC-32C of
// what follows it (4 bytes, big-endian), and the signed record. A record that
// is cut short or damaged ends the file: what follows is cut off and comes back
// from the neighbours. Rewriting makes a new file and renames it.
const (
	logName    = "bindings.log"
	logTemp    = "bindings.log.new"
	lockName   = "lock"
	logMagic   = "tg-bind1"
	logHeadLen = 8
	// The file is rewritten when more than half of it, and so much, is superseded.
	compactBytes = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type logFile struct {
	dir     string
	f       *os.File
	lock    *os.File
	size    int64
	pending bool // written and not yet synced
}

// openLog opens or makes the file in dir and hands every whole record to each.
// cut is the number of bytes that were damaged and are gone.
func openLog(dir string, each func(raw []byte)) (l *logFile, cut int64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, fmt.Errorf("binding store %s: %w", dir, err)
	}
	l = &logFile{dir: dir}
	if err := l.takeLock(); err != nil {
		return nil, 0, err
	}
	cut, err = l.read(each)
	if err != nil {
		l.close()
		return nil, 0, err
	}
	return l, cut, nil
}

// read finds the file's end, hands over what stands before it and cuts the rest.
func (l *logFile) read(each func(raw []byte)) (cut int64, err error) {
	dir := l.dir
	os.Remove(filepath.Join(dir, logTemp)) // of a rewriting that did not end
	path := filepath.Join(dir, logName)
	l.f, err = os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, l.rewrite(nil)
	}
	if err != nil {
		return 0, fmt.Errorf("binding store: %w", err)
	}
	info, err := l.f.Stat()
	if err != nil {
		return 0, fmt.Errorf("binding store: %w", err)
	}
	good, err := readLog(l.f, each)
	if err != nil {
		return 0, fmt.Errorf("binding store %s: %w", path, err)
	}
	cut = info.Size() - good
	if good == 0 {
		return cut, l.rewrite(nil)
	}
	if err := l.f.Truncate(good); err != nil {
		return 0, fmt.Errorf("binding store: %w", err)
	}
	if _, err := l.f.Seek(good, io.SeekStart); err != nil {
		return 0, fmt.Errorf("binding store: %w", err)
	}
	l.size = good
	return cut, nil
}

func (l *logFile) takeLock() error {
	f, err := os.OpenFile(filepath.Join(l.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("binding store: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return fmt.Errorf("binding store %s is in use by another process; stop it or name another directory", l.dir)
	}
	l.lock = f
	return nil
}

// readLog returns how many bytes from the beginning are whole.
func readLog(f *os.File, each func(raw []byte)) (good int64, err error) {
	data, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	if len(data) < len(logMagic) {
		return 0, nil // cut while it was made
	}
	if string(data[:len(logMagic)]) != logMagic {
		return 0, errors.New("is not a store of bindings, or of another version; move it away")
	}
	at := len(logMagic)
	for {
		rest := data[at:]
		if len(rest) < logHeadLen {
			return int64(at), nil
		}
		n := int(binary.BigEndian.Uint32(rest))
		if n == 0 || n > binding.MaxRecordLen || len(rest) < logHeadLen+n {
			return int64(at), nil
		}
		raw := rest[logHeadLen : logHeadLen+n : logHeadLen+n]
		if crc32.Checksum(raw, castagnoli) != binary.BigEndian.Uint32(rest[4:]) {
			return int64(at), nil
		}
		each(raw)
		at += logHeadLen + n
	}
}

func frame(raw []byte) []byte {
	b := make([]byte, logHeadLen, logHeadLen+len(raw))
	binary.BigEndian.PutUint32(b, uint32(len(raw)))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(raw, castagnoli))
	return append(b, raw...)
}

func (l *logFile) append(raw []byte) error {
	b := frame(raw)
	if _, err := l.f.Write(b); err != nil {
		l.f.Truncate(l.size) // a torn record in the middle would hide what follows
		l.f.Seek(l.size, io.SeekStart)
		return err
	}
	l.size += int64(len(b))
	l.pending = true
	return nil
}

func (l *logFile) sync() error {
	if !l.pending {
		return nil
	}
	l.pending = false
	return l.f.Sync()
}

// rewrite makes a file of these records and puts it in the place of the old one.
func (l *logFile) rewrite(list []*binding.Record) error {
	f, size, err := l.writeTemp(list)
	if err != nil {
		return err
	}
	return l.install(f, size, nil)
}

// writeTemp writes a new file beside the old one and waits for the disk.
func (l *logFile) writeTemp(list []*binding.Record) (*os.File, int64, error) {
	f, err := os.OpenFile(filepath.Join(l.dir, logTemp), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("binding store: %w", err)
	}
	data := []byte(logMagic)
	for _, r := range list {
		data = append(data, frame(r.Raw())...)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("binding store: %w", err)
	}
	return f, int64(len(data)), nil
}

// install appends what has come since and gives the new file the name of the old one.
func (l *logFile) install(f *os.File, size int64, since []*binding.Record) error {
	var data []byte
	for _, r := range since {
		data = append(data, frame(r.Raw())...)
	}
	_, err := f.Write(data)
	if err == nil && len(data) > 0 {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(filepath.Join(l.dir, logTemp), filepath.Join(l.dir, logName))
	}
	if err == nil {
		err = syncDir(l.dir)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("binding store: %w", err)
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f, l.size, l.pending = f, size+int64(len(data)), false
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (l *logFile) close() error {
	var err error
	if l.f != nil {
		err = errors.Join(l.sync(), l.f.Close())
	}
	if l.lock != nil {
		l.lock.Close()
	}
	return err
}
