//! Opens sessions: directly, or through the first jump host that leads there.
//!
//! Invariant: a session holds a place of [`Limits`] as long as it lives, and what failed on the way is said even
//! when a later way led there.

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tracing::debug;

use super::addresses::AddressRules;
use super::error::Error;
use super::handshake::{Login, enter, within};
use super::limits::Limits;
use super::opened::Session;
use super::slots::{Slot, Slots};
use super::target::{Hop, Target};

/// Where the keys of the machine are pinned.
const OF_HOST: &str = "Host.spec.hostKeys";
/// Where those of its jump hosts are.
const OF_JUMP: &str = "hostKeys of this entry of Host.spec.via";

/// Opens sessions; one for the whole operator, since it counts them.
#[derive(Debug)]
pub struct Connector {
    limits: Limits,
    rules: AddressRules,
    slots: Slots,
}

impl Connector {
    /// With these bounds.
    #[must_use]
    pub fn new(limits: Limits, rules: AddressRules) -> Self {
        Self {
            slots: Slots::new(limits.sessions, limits.sessions_per_jump),
            limits,
            rules,
        }
    }

    /// Opens a session. Jump hosts are tried in their order, one on each way.
    ///
    /// # Errors
    /// [`Error`]; of several ways the failure that people have to see first: a wrong key before anything else.
    pub async fn connect(&self, target: &Target) -> Result<Session, Error> {
        self.connect_by(target, &self.rules).await
    }

    /// The same with these rules in the place of its own: which ranges are refused may change.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_by(
        &self,
        target: &Target,
        rules: &AddressRules,
    ) -> Result<Session, Error> {
        if target.via.is_empty() {
            let slot = self.slot(None).await?;
            let stream = self.dial(&target.host, rules).await?;
            let login = Box::pin(enter(&target.host, OF_HOST, stream, &self.limits)).await?;
            return Ok(Session::new(
                target,
                login,
                None,
                slot,
                self.limits,
                Vec::new(),
            ));
        }
        let mut failures: Vec<Error> = Vec::new();
        for jump in &target.via {
            let slot = self.slot(Some(&jump.name())).await?;
            match self.through(jump, &target.host, rules).await {
                Ok((login, outer)) => {
                    let outer = Some(outer);
                    return Ok(Session::new(
                        target,
                        login,
                        outer,
                        slot,
                        self.limits,
                        failures,
                    ));
                }
                Err(error) => {
                    debug!(hop = jump.name(), %error, "a way to a machine does not lead there");
                    let is_final = error.is_final(&target.host.name());
                    failures.push(error);
                    if is_final {
                        break;
                    }
                }
            }
        }
        // The first of the heaviest: `max_by_key` would take the last.
        failures.reverse();
        let worst = failures.into_iter().max_by_key(Error::weight);
        Err(worst.unwrap_or(Error::Busy { places: "ways" }))
    }

    async fn slot(&self, jump: Option<&str>) -> Result<Slot, Error> {
        let places = match jump {
            Some(_) => "sessions through this jump host, or in all,",
            None => "sessions",
        };
        let slot = timeout(self.limits.turn, self.slots.take(jump)).await;
        slot.ok().flatten().ok_or(Error::Busy { places })
    }

    /// The machine's login and the jump host's.
    async fn through(
        &self,
        jump: &Hop,
        host: &Hop,
        rules: &AddressRules,
    ) -> Result<(Login, Login), Error> {
        let (via, name) = (jump.name(), host.name());
        // What the jump host resolves is its own business, but an address is seen here.
        if let Ok(address) = host.address.parse()
            && !rules.allows(address)
        {
            return Err(self.forbidden(host, &address.to_string()));
        }
        let outer = async {
            let stream = self.dial(jump, rules).await?;
            Box::pin(enter(jump, OF_JUMP, stream, &self.limits)).await
        };
        let outer = within(&via, "let us in", self.limits.jump, outer).await??;
        let port = u32::from(host.port);
        let channel =
            outer
                .handle
                .channel_open_direct_tcpip(host.address.as_str(), port, "127.0.0.1", 0);
        let channel = within(
            &name,
            "answer through the jump host",
            self.limits.connect,
            channel,
        )
        .await?;
        let channel = channel.map_err(|error| match error {
            russh::Error::ChannelOpenFailure(_) => Error::Forward { via, hop: name },
            error => Error::protocol(&via, &error),
        })?;
        // The jump host carries bytes: the machine behind it proves itself as if it were not there.
        let inner = enter(host, OF_HOST, channel.into_stream(), &self.limits);
        let login = Box::pin(inner).await?;
        Ok((login, outer))
    }

    async fn dial(&self, hop: &Hop, rules: &AddressRules) -> Result<TcpStream, Error> {
        let name = hop.name();
        let unreachable = |source| Error::Unreachable {
            hop: name.clone(),
            source,
        };
        let dialled = async {
            let found = lookup_host((hop.address.as_str(), hop.port)).await;
            let found: Vec<_> = found.map_err(unreachable)?.take(16).collect();
            let good: Vec<_> = found
                .iter()
                .filter(|a| rules.allows(a.ip()))
                .copied()
                .collect();
            if let ([], Some(first)) = (&good[..], found.first()) {
                return Err(self.forbidden(hop, &first.ip().to_string()));
            }
            let stream = TcpStream::connect(&good[..]).await.map_err(unreachable)?;
            let peer = stream.peer_addr().map_err(unreachable)?.ip();
            if !rules.allows(peer) {
                return Err(self.forbidden(hop, &peer.to_string()));
            }
            stream.set_nodelay(true).map_err(unreachable)?;
            Ok(stream)
        };
        within(&name, "answer", self.limits.connect, dialled).await?
    }

    fn forbidden(&self, hop: &Hop, address: &str) -> Error {
        Error::Forbidden {
            hop: hop.name(),
            address: address.to_owned(),
        }
    }
}
