// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// RefusedReload is a reload that was refused, and is the last one. It stands beside the state file until one succeeds or the process
// ends, for `status`.
type RefusedReload struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

func refusedReloadPath(dir, instance string) string {
	return filepath.Join(dir, instance+".refused")
}

// NoteReload remembers how the last reload has ended.
func NoteReload(dir, instance string, refusal error) error {
	if refusal == nil {
		return forgetReload(dir, instance)
	}
	text, err := json.Marshal(RefusedReload{time.Now(), refusal.Error()})
	if err != nil {
		return err
	}
	return replaceFile(refusedReloadPath(dir, instance), text)
}

func forgetReload(dir, instance string) error {
	if err := os.Remove(refusedReloadPath(dir, instance)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadRefusedReload is the last reload of a process that runs, if it was refused; nil: it was not.
func ReadRefusedReload(dir, instance string) (*RefusedReload, error) {
	text, err := os.ReadFile(refusedReloadPath(dir, instance))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &RefusedReload{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("last reload: %s: %w", refusedReloadPath(dir, instance), err)
	}
	return r, nil
}
