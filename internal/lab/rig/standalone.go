// SPDX-License-Identifier: Apache-2.0

package rig

import "errors"

// NewNamespace makes a namespace of this process outside any topology, with the
// lab's sysctls. The caller closes it; if this process is killed,
// the next Clean removes it.
func NewNamespace(role string) (*Namespace, error) {
	o, err := Self()
	if err != nil {
		return nil, err
	}
	n, err := MakeNamespace(o, role)
	if err != nil {
		return nil, err
	}
	if err := n.SetSysctls(BaseSysctls()...); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}
