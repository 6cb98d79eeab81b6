// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tidegate/internal/routers"
)

// What is announced to routers, and how the sessions are, stands beside the state file while the process runs, for `status`.

func routersPath(dir, instance string) string { return filepath.Join(dir, instance+".routers") }

// WriteRouters replaces it.
func WriteRouters(dir, instance string, s routers.State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replaceFile(routersPath(dir, instance), text)
}

// ReadRouters reads it; nil: nothing is announced.
func ReadRouters(dir, instance string) (*routers.State, error) {
	text, err := os.ReadFile(routersPath(dir, instance))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s := &routers.State{}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, fmt.Errorf("state of BGP: %s: %w", routersPath(dir, instance), err)
	}
	return s, nil
}

// RemoveRouters removes it.
func RemoveRouters(dir, instance string) {
	_ = os.Remove(routersPath(dir, instance))
}
