// SPDX-License-Identifier: Apache-2.0

package book

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tidegate/internal/lab/rig"
)

// Tree identifies the tree by the programs that measure: a hash of tidegate-lab and of the tidegate
// that it measures, which have the BPF objects inside.
func Tree(exe string) (string, error) {
	if exe == "" {
		var err error
		if exe, err = rig.FindTidegate(); err != nil {
			return "", err
		}
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range []string{own, exe} {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// file is where a unit's result is kept.
func file(out, chapter, unit string) string {
	return filepath.Join(out, "data", chapter+"-"+unit+".json")
}

// read reads a kept result; nil if there is none.
func read(out, chapter, unit string) (*Outcome, error) {
	data, err := os.ReadFile(file(out, chapter, unit))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x := &Outcome{}
	if err := json.Unmarshal(data, x); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file to measure again", file(out, chapter, unit), err)
	}
	return x, nil
}

// save writes a result so that the file is whole or not there.
func save(out string, x *Outcome) error {
	data, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return fmt.Errorf("%s %s: %w", x.Chapter, x.Unit, err)
	}
	name := file(out, x.Chapter, x.Unit)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
