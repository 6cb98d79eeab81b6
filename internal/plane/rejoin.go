// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net"
	"time"

	"tidegate/internal/dispatcher"
	"tidegate/internal/proginfo"
)

// What somebody else has taken off. The programs of other tools on an interface come and go by replacing its dispatcher, and a
// tool that does not keep to the protocol, or a hand with root's rights, takes ours off with it.

// Detached returns, by interface, which of the instance's programs sees no packets there any more, and why.
func (p *Pinned) Detached() map[string]string { return detachedIn(p.dir) }

func detachedIn(dir string) map[string]string {
	found := map[string]string{}
	(&attachments{dir: dir}).eachPin(func(path, kind, name string) {
		l, err := openHook(path)
		if err != nil {
			return
		}
		defer l.Close()
		if l.ifindex() != 0 {
			return
		}
		if _, err := net.InterfaceByName(name); err != nil {
			found[name] = "the interface is gone"
			return
		}
		switch l.(type) {
		case *dispatchedHook:
			found[name] = "somebody has removed or replaced the XDP dispatcher that ran its program"
		case *filterHook:
			found[name] = fmt.Sprintf("somebody has removed its %s filter (clsact)", kind)
		default:
			found[name] = fmt.Sprintf("its %s link was detached, or the interface was created again", kind)
		}
	})
	return found
}

// Between two attempts to join again. The first is late enough that status and events can say why. Whoever keeps taking the program
// off means it, or fights with another tool: the pause doubles, until the program has stayed for rejoinCalm.
const (
	rejoinFirst = 2 * time.Second
	rejoinMost  = 64 * time.Second
	rejoinCalm  = 10 * time.Minute
)

// absence is of one interface.
type absence struct {
	since, due time.Time // zero: the program is there
	pause      time.Duration
	back       time.Time // when it was put back the last time
}

// Rejoin puts the XDP program back beside others where its dispatcher was removed or replaced; call it once a second. It returns
// the interfaces where the program is missed since this call, and where it is back. It leaves a program alone that is no dispatcher.
func (p *Plane) Rejoin(now time.Time) (missed, back []string, err error) {
	if p.links == nil || !p.final {
		return nil, nil, nil
	}
	for name, a := range p.links.xdp {
		h, ok := a.link.(*dispatchedHook)
		if !ok {
			continue
		}
		state, lookErr := h.place.Look()
		there := lookErr == nil && state.Has(h.id)
		state.Close()
		at := p.absent[name]
		if at == nil {
			at = &absence{pause: rejoinFirst}
			if p.absent == nil {
				p.absent = map[string]*absence{}
			}
			p.absent[name] = at
		}
		switch {
		case there:
			at.since = time.Time{}
			if now.Sub(at.back) > rejoinCalm {
				at.pause = rejoinFirst
			}
		case at.since.IsZero():
			at.since, at.due = now, now.Add(at.pause)
			missed = append(missed, name)
		case now.Before(at.due) || errors.Is(lookErr, dispatcher.ErrForeign):
		default:
			at.pause = min(2*at.pause, rejoinMost)
			at.due = now.Add(at.pause)
			if joinErr := p.rejoin(name, a, h); joinErr != nil {
				err = errors.Join(err, fmt.Errorf("interface %s: joining the XDP dispatcher again: %w; next attempt in %v", name, joinErr, at.pause))
				continue
			}
			at.since, at.back = time.Time{}, now
			back = append(back, name)
		}
	}
	return missed, back, err
}

// rejoin is one attempt.
func (p *Plane) rejoin(name string, a *attachment, h *dispatchedHook) error {
	if dev, err := net.InterfaceByName(name); err != nil || dev.Index != h.place.Ifindex {
		return errors.New("the interface is gone or was created again: restart tidegate")
	}
	prog, err := h.place.Join(p.component(p.priority))
	if err != nil {
		return err
	}
	id, err := proginfo.ID(prog)
	if err == nil {
		err = pinInPlace(prog, a.path)
	}
	if err != nil {
		leaveErr := h.place.Leave(id)
		prog.Close()
		return errors.Join(err, leaveErr)
	}
	h.prog.Close()
	h.prog, h.id, h.present, h.path = prog, id, true, a.path
	return nil
}
