// SPDX-License-Identifier: Apache-2.0

// Package bgp is the BGP speaker of tidegate-bgp, on GoBGP's library. It announces exactly what it is told, opens sessions and
// listens on nothing, and it takes no route from a peer. Only cmd/tidegate-bgp may import it: it is as large as the rest of Tidegate.
package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"tidegate/internal/routers"
	"tidegate/internal/routers/speaker"
)

// connectRetry is how long a router that does not answer is left alone, seconds.
const connectRetry = 5

// Speaker is a running speaker.
type Speaker struct {
	server *server.BgpServer
	have   map[route]announced

	mu      sync.Mutex
	peers   []routers.Session
	changed chan struct{}
}

// route is what two paths that replace each other have in common.
type route struct {
	prefix, to netip.Prefix
	flow       bool
}

type announced struct {
	text string // to compare
	path *apiutil.Path
}

// Start opens the sessions.
func Start(ctx context.Context, s *speaker.Settings, log *slog.Logger) (*Speaker, error) {
	level := &slog.LevelVar{}
	level.Set(slog.LevelWarn)
	b := &Speaker{server: server.NewBgpServer(server.LoggerOption(log, level)), have: map[route]announced{}, changed: make(chan struct{}, 1)}
	go b.server.Serve()
	err := b.server.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: s.AS, RouterId: s.RouterID.String(), ListenPort: -1}})
	if err != nil {
		return nil, err
	}
	if err := b.takeNothing(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.Peers {
		b.peers = append(b.peers, routers.Session{Address: p.Address, AS: p.AS, State: "idle", Since: time.Now()})
	}
	if err := b.server.WatchEvent(ctx, server.WatchEventMessageCallbacks{OnPeerUpdate: b.peerChanged}, server.WatchPeer()); err != nil {
		return nil, err
	}
	for i := range s.Peers {
		if err := b.server.AddPeer(ctx, &api.AddPeerRequest{Peer: peer(&s.Peers[i], s)}); err != nil {
			return nil, fmt.Errorf("peer %s: %w", s.Peers[i].Address, err)
		}
	}
	return b, nil
}

// takeNothing refuses every route of a peer: this is no router, and what one peer announces must not go on to another.
func (b *Speaker) takeNothing(ctx context.Context) error {
	ours := &api.Policy{Name: "ours", Statements: []*api.Statement{{Name: "ours",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT}}}}
	if err := b.server.AddPolicy(ctx, &api.AddPolicyRequest{Policy: ours}); err != nil {
		return err
	}
	for _, d := range []api.PolicyDirection{api.PolicyDirection_POLICY_DIRECTION_IMPORT, api.PolicyDirection_POLICY_DIRECTION_EXPORT} {
		err := b.server.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{Name: "global", Direction: d,
			Policies: []*api.Policy{{Name: ours.Name}}, DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT}})
		if err != nil {
			return err
		}
	}
	return nil
}

func peer(p *speaker.Peer, s *speaker.Settings) *api.Peer {
	out := &api.Peer{
		Conf: &api.PeerConf{NeighborAddress: p.Address.String(), PeerAsn: p.AS, AuthPassword: p.Password},
		Timers: &api.Timers{Config: &api.TimersConfig{ConnectRetry: connectRetry, HoldTime: uint64(s.HoldTime), KeepaliveInterval: uint64(s.HoldTime / 3),
			IdleHoldTimeAfterReset: connectRetry}},
		Transport: &api.Transport{RemotePort: uint32(p.Port)},
	}
	if p.Local.IsValid() {
		out.Transport.LocalAddress = p.Local.String()
	}
	switch {
	case p.GTSM:
		// Packets are sent with TTL 255. What arrives is not checked: FRRouting's listener answers a SYN with the kernel's TTL, and this
		// library would set the limit before the connection stands.
		out.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: 1}
	case p.Hops > 1 && p.AS != s.AS:
		out.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(p.Hops)}
	}
	afi := map[bool]api.Family_Afi{true: api.Family_AFI_IP, false: api.Family_AFI_IP6}[p.Address.Is4()]
	family := func(safi api.Family_Safi) {
		out.AfiSafis = append(out.AfiSafis, &api.AfiSafi{Config: &api.AfiSafiConfig{Family: &api.Family{Afi: afi, Safi: safi}, Enabled: true}})
	}
	family(api.Family_SAFI_UNICAST)
	if p.Flow {
		family(api.Family_SAFI_FLOW_SPEC_UNICAST)
	}
	return out
}

// peerChanged notes the state of a session.
func (b *Speaker) peerChanged(e *apiutil.WatchEventMessage_PeerEvent, at time.Time) {
	if e.Type != apiutil.PEER_EVENT_STATE && e.Type != apiutil.PEER_EVENT_INIT {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.peers {
		p := &b.peers[i]
		if p.Address != e.Peer.State.NeighborAddress {
			continue
		}
		state := e.Peer.State.SessionState
		up := state == packet.BGP_FSM_ESTABLISHED
		p.State = strings.ToLower(strings.TrimPrefix(state.String(), "BGP_FSM_"))
		switch {
		case p.Up && !up:
			p.Flaps++
			p.Since, p.Why = at, e.Peer.State.DisconnectMessage
		case !p.Up && up:
			p.Since, p.Why = at, ""
		}
		p.Up = up
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Changed has a value when Report has something new.
func (b *Speaker) Changed() <-chan struct{} { return b.changed }

// Report says how the sessions are.
func (b *Speaker) Report() speaker.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return speaker.Report{Peers: append([]routers.Session(nil), b.peers...), Paths: len(b.have)}
}

// Announce makes these all the paths that are announced.
func (b *Speaker) Announce(paths []speaker.Path) error {
	var errs []error
	wanted := map[route]bool{}
	for i := range paths {
		key, text := route{paths[i].Prefix, paths[i].To, paths[i].Flow}, fmt.Sprintf("%+v", paths[i])
		wanted[key] = true
		if b.have[key].text == text {
			continue
		}
		p, err := path(&paths[i])
		if err == nil { // it replaces another of the same route
			_, err = b.server.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{p}})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", paths[i].Prefix, err))
			continue
		}
		b.have[key] = announced{text, p}
	}
	for key, old := range b.have {
		if wanted[key] {
			continue
		}
		if err := b.server.DeletePath(apiutil.DeletePathRequest{Paths: []*apiutil.Path{old.path}}); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(b.have, key)
	}
	return errors.Join(errs...)
}

// path is a path in GoBGP's form.
func path(p *speaker.Path) (*apiutil.Path, error) {
	attrs := []packet.PathAttributeInterface{packet.NewPathAttributeOrigin(0)}
	if len(p.Communities) > 0 {
		attrs = append(attrs, packet.NewPathAttributeCommunities(p.Communities))
	}
	if p.Flow {
		nlri, family, err := flow(p)
		if err != nil {
			return nil, err
		}
		reach, err := packet.NewPathAttributeMpReachNLRI(family, []packet.PathNLRI{{NLRI: nlri}})
		if err != nil {
			return nil, err
		}
		// RFC 8955, 7.3: a rate of 0 discards. The number of an AS there is informational.
		discard := packet.NewPathAttributeExtendedCommunities([]packet.ExtendedCommunityInterface{packet.NewTrafficRateExtended(0, 0)})
		return &apiutil.Path{Family: family, Nlri: nlri, Attrs: append(attrs, reach, discard)}, nil
	}
	nlri, err := packet.NewIPAddrPrefix(p.Prefix)
	if err != nil {
		return nil, err
	}
	if p.Prefix.Addr().Is4() {
		next := p.NextHop
		if !next.IsValid() {
			next = netip.IPv4Unspecified() // GoBGP puts the session's address here
		}
		hop, err := packet.NewPathAttributeNextHop(next)
		return &apiutil.Path{Family: packet.RF_IPv4_UC, Nlri: nlri, Attrs: append(attrs, hop)}, err
	}
	next := p.NextHop
	if !next.IsValid() {
		next = netip.IPv6Unspecified()
	}
	reach, err := packet.NewPathAttributeMpReachNLRI(packet.RF_IPv6_UC, []packet.PathNLRI{{NLRI: nlri}}, next)
	return &apiutil.Path{Family: packet.RF_IPv6_UC, Nlri: nlri, Attrs: append(attrs, reach)}, err
}

const protoTCP = 6

// flow is the rule that matches TCP from p.Prefix to p.To.
func flow(p *speaker.Path) (packet.NLRI, packet.Family, error) {
	src, err := packet.NewIPAddrPrefix(p.Prefix)
	if err != nil {
		return nil, 0, err
	}
	dst, err := packet.NewIPAddrPrefix(p.To)
	if err != nil {
		return nil, 0, err
	}
	const equal = 1
	tcp := packet.NewFlowSpecComponent(packet.FLOW_SPEC_TYPE_IP_PROTO, []*packet.FlowSpecComponentItem{packet.NewFlowSpecComponentItem(equal, protoTCP)})
	if p.Prefix.Addr().Is4() {
		nlri, err := packet.NewFlowSpecUnicast(packet.RF_FS_IPv4_UC, []packet.FlowSpecComponentInterface{
			packet.NewFlowSpecDestinationPrefix(dst), packet.NewFlowSpecSourcePrefix(src), tcp})
		return nlri, packet.RF_FS_IPv4_UC, err
	}
	nlri, err := packet.NewFlowSpecUnicast(packet.RF_FS_IPv6_UC, []packet.FlowSpecComponentInterface{
		packet.NewFlowSpecDestinationPrefix6(dst, 0), packet.NewFlowSpecSourcePrefix6(src, 0), tcp})
	return nlri, packet.RF_FS_IPv6_UC, err
}

// Close ends the sessions with a notification: the routers withdraw what was announced at once.
func (b *Speaker) Close(ctx context.Context) error {
	return b.server.StopBgp(ctx, &api.StopBgpRequest{})
}
