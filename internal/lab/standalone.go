package lab

import "errors"

// NewNamespace makes a namespace of this process that belongs to no topology,
// quiet as the lab's own are. Close it in the end; if this process is killed,
// the next Clean removes it.
func NewNamespace(role string) (*Namespace, error) {
	o, err := self()
	if err != nil {
		return nil, err
	}
	n, err := newNamespace(o, role)
	if err != nil {
		return nil, err
	}
	if err := n.setSysctls(baseSysctls()...); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Current says whether the calling thread is inside this namespace.
func (n *Namespace) Current() bool { return n.current() }
