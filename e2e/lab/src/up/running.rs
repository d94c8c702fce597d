//! A cluster whose host runs: orders to it, and waiting for what it runs.
//!
//! Invariant: who waits for a program watches that program: one that ends is reported at once with the
//! end of its log, not after a timeout.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    config::{self, Cluster},
    host::{Host, Order, Program},
    logs,
};

const TICK: Duration = Duration::from_millis(50);

/// A cluster whose host runs.
pub(super) struct Running<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) host: Host,
    pub(super) programs: BTreeMap<String, Program>,
}

impl Running<'_> {
    pub(super) fn order_start(&self, name: &str) -> Result<()> {
        let program = self
            .programs
            .get(name)
            .with_context(|| format!("{name}: unknown"))?;
        self.host.order(&Order::Start(program.clone()))
    }

    /// Waits until `condition` holds, and fails as soon as the program ended.
    pub(super) fn wait(
        &self,
        program: &str,
        patience: Duration,
        mut condition: impl FnMut() -> bool,
    ) -> Result<()> {
        let tail = || logs::last_lines(&self.cluster.layout, program, 15);
        wait_for(
            patience,
            TICK,
            || {
                if let Some(how) = self.ended(program) {
                    bail!("{program} ended: {how}\n{}", tail())
                }
                Ok(condition())
            },
            || format!("{program} does not answer; the end of its log:\n{}", tail()),
        )
    }

    /// How the program ended, when it did; the whole host counts.
    pub(super) fn ended(&self, program: &str) -> Option<String> {
        if !self.host.is_alive() {
            return Some("its host ended".to_owned());
        }
        self.host
            .programs()
            .into_iter()
            .find(|state| state.name == program)?
            .ended
    }

    pub(super) fn listens(&self, port: u16) -> bool {
        let address = SocketAddr::from((self.cluster.slot.host_address(0), port));
        TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
    }

    pub(super) fn containerd_answers(&self) -> bool {
        let socket = config::CONTAINERD_SOCKET.trim_start_matches('/');
        // /run is the host's own: seen from here through its first process.
        let socket = format!("/proc/{}/root/{socket}", self.host.init.pid);
        self.ended("containerd").is_none()
            && std::os::unix::net::UnixStream::connect(socket).is_ok()
    }
}

/// Tries `condition` until it holds; `failure` says what is missing when it never does.
pub(super) fn wait_for(
    patience: Duration,
    pause: Duration,
    mut condition: impl FnMut() -> Result<bool>,
    failure: impl FnOnce() -> String,
) -> Result<()> {
    let end = Instant::now() + patience;
    while !condition()? {
        if Instant::now() > end {
            return Err(anyhow::Error::msg(failure()))
                .with_context(|| format!("not within {} s", patience.as_secs()));
        }
        thread::sleep(pause);
    }
    Ok(())
}
