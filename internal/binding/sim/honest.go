// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/flood"
	"tidegate/internal/binding/store"
)

const tickEvery = flood.TickEvery

// honest is the real engine over the real store.
type honest struct {
	net    *network
	node   *node
	store  *store.Store
	engine *flood.Engine
	// onRecord hears what the engine accepts.
	onRecord func(r *binding.Record)
}

func newHonest(net *network, n *node, p *population, seed uint64, limits flood.Limits) (*honest, error) {
	h := &honest{net: net, node: n}
	var err error
	h.store, err = store.New(store.Options{Anchors: p.anchors, NoIndex: true, Decode: net.lib.decode,
		Verify: func(r *binding.Record) error {
			n.verified++
			return net.lib.verify(r)
		}})
	if err != nil {
		return nil, err
	}
	h.engine = flood.New(flood.Options{Store: h.store, Seed: seed, Limits: limits, OnRecord: func(r *binding.Record, _ flood.Peer) {
		if h.onRecord != nil {
			h.onRecord(r)
		}
	}})
	return h, nil
}

func (h *honest) connect(peer *node, now time.Time) error { return h.engine.Connect(peer.key, now) }
func (h *honest) disconnect(peer *node)                   { h.engine.Disconnect(peer.key) }
func (h *honest) tick(now time.Time)                      { h.engine.Tick(now) }
func (h *honest) sent(peer *node, n int)                  { h.engine.Sent(peer.key, n) }

func (h *honest) receive(peer *node, msg []byte, now time.Time) {
	h.engine.Receive(peer.key, msg, now)
}

func (h *honest) wait(peer *node, n int, now time.Time) time.Duration {
	return h.engine.Wait(peer.key, n, now)
}

func (h *honest) drain() []outgoing {
	list := h.engine.Drain()
	out := make([]outgoing, len(list))
	for i, o := range list {
		out[i] = outgoing{to: h.net.byKey[o.Peer], msg: o.Msg, close: o.Close}
	}
	return out
}
