//! One hop: key exchange with a pinned key, and the login.
//!
//! Invariant: nothing is sent to a machine whose key is not pinned, and the machine opens no channel to us.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use russh::client::{self, ChannelOpenHandle, Handle, Msg};
use russh::keys::{PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, Preferred};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::cut::{Cuttable, Guard};
use super::error::Error;
use super::limits::Limits;
use super::pins::{HostKeys, fingerprint};
use super::target::Hop;

/// Refuses channels that a server opens: it does so only for what was asked for, and none of these is. The library
/// would accept them; a handle that is dropped refuses.
macro_rules! refuse {
    ($($channel:ident($($told:ident: $kind:ty),*);)*) => {$(
        async fn $channel(
            &mut self,
            _channel: Channel<Msg>,
            $($told: $kind,)*
            reply: ChannelOpenHandle,
            _session: &mut client::Session,
        ) -> Result<(), Self::Error> {
            $(let _ = $told;)*
            drop(reply);
            Ok(())
        }
    )*};
}

/// What the library asks us about a connection.
pub(super) struct Handler {
    host_keys: HostKeys,
    /// The key that was refused.
    refused: Arc<OnceLock<String>>,
    /// The key that was accepted. The first one: keys are exchanged anew on a long connection.
    accepted: Arc<OnceLock<String>>,
}

impl client::Handler for Handler {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        // Certificates are never asked for, so this is a key.
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else {
            return Ok(false);
        };
        let is_pinned = self.host_keys.accepts(key);
        let seen = if is_pinned {
            &self.accepted
        } else {
            &self.refused
        };
        let _ = seen.set(fingerprint(key));
        Ok(is_pinned)
    }

    refuse! {
        server_channel_open_forwarded_tcpip(address: &str, port: u32, from: &str, from_port: u32);
        server_channel_open_forwarded_streamlocal(path: &str);
        server_channel_open_agent_forward();
        server_channel_open_session();
        server_channel_open_direct_tcpip(address: &str, port: u32, from: &str, from_port: u32);
        server_channel_open_direct_streamlocal(path: &str);
        server_channel_open_x11(from: &str, from_port: u32);
    }
}

/// A hop that was entered; everything over it ends when it is dropped.
pub(super) struct Login {
    pub(super) handle: Handle<Handler>,
    /// Kind and SHA256 fingerprint of the key that it showed.
    pub(super) host_key: String,
    _guard: Guard,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

/// How SSH is spoken with one hop.
fn config(host_keys: &HostKeys, limits: &Limits) -> client::Config {
    client::Config {
        preferred: Preferred {
            key: host_keys.preference().into(),
            ..Preferred::DEFAULT
        },
        keepalive_interval: Some(limits.keepalive),
        keepalive_max: limits.keepalives,
        // A host that talks without end fills no more than this: messages a channel, and bytes on the way.
        channel_buffer_size: 32,
        window_size: 256 * 1024,
        maximum_packet_size: 32 * 1024,
        nodelay: true,
        ..client::Config::default()
    }
}

/// Speaks SSH over a stream and logs in; `field` names what pins the keys.
pub(super) async fn enter<S>(
    hop: &Hop,
    field: &'static str,
    stream: S,
    limits: &Limits,
) -> Result<Login, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let name = hop.name();
    let refused = Arc::new(OnceLock::new());
    let accepted = Arc::new(OnceLock::new());
    let handler = Handler {
        host_keys: hop.host_keys.clone(),
        refused: Arc::clone(&refused),
        accepted: Arc::clone(&accepted),
    };
    let (stream, guard) = Cuttable::new(stream);
    let config = Arc::new(config(&hop.host_keys, limits));
    let connected = client::connect_stream(config, stream, handler);
    let connected = within(&name, "answer", limits.connect, connected).await?;
    let mut handle = connected.map_err(|error| match (refused.get(), &error) {
        (Some(seen), _) => Error::WrongHostKey {
            hop: name.clone(),
            seen: seen.clone(),
            field,
        },
        (
            None,
            russh::Error::NoCommonAlgo {
                kind: AlgorithmKind::Key,
                ..
            },
        ) => Error::NoHostKey { hop: name.clone() },
        (None, error) => Error::protocol(&name, error),
    })?;
    let key = PrivateKeyWithHashAlg::new(Arc::clone(&hop.key.0), None);
    let login = handle.authenticate_publickey(hop.user.as_str(), key);
    let login = within(&name, "accept the login", limits.login, login).await?;
    match login {
        Ok(result) if result.success() => Ok(Login {
            handle,
            host_key: accepted.get().cloned().unwrap_or_default(),
            _guard: guard,
        }),
        Ok(_) => Err(Error::LoginRefused {
            hop: name,
            user: hop.user.clone(),
        }),
        Err(error) => Err(Error::protocol(&name, &error)),
    }
}

/// Waits no longer than this.
pub(super) async fn within<T>(
    hop: &str,
    stage: &'static str,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    timeout(limit, work).await.map_err(|_| Error::TimedOut {
        hop: hop.to_owned(),
        stage,
        limit,
    })
}
