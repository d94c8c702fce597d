//! A lab of a test: a folder that is a checkout by its looks, and hosts as they are printed.
//!
//! Invariant: it is taken down with its value, also when a test fails. What a killed test leaves, and what could
//! not be taken down, stays in the test's folder until its next run begins with taking that down.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use lab::{Layout, programs::KubernetesVersion, state::State};
use provider_static::session::{
    AddressRules, Connector, Escalation, Hop, HostKeys, Limits, LoginKey, Session, Target,
};
use serde_json::Value;
use testkit::programs::or_skip;

use crate::support;

/// A lab that ends with its value.
pub(crate) struct Lab {
    checkout: PathBuf,
    /// Locked as long as the test is at work: another run of it, beside this one, waits.
    turn: File,
}

impl Lab {
    /// None where such hosts cannot run, after saying so. No two labs have the same `name`.
    pub(crate) fn begin(name: &str) -> Result<Option<Self>> {
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        let able = match is_root {
            true => lab::hosts::is_prepared(KubernetesVersion::default()),
            false => Err(anyhow::anyhow!("it needs root")),
        };
        if or_skip(able)?.is_none() {
            return Ok(None);
        }
        let folder = target().join("lab-host");
        let checkout = folder.join(name);
        fs::create_dir_all(&checkout)?;
        let turn = File::create(folder.join(format!("{name}.lock")))?;
        turn.lock()?;
        // Made anew: where it led to may have moved.
        let link = checkout.join("e2e");
        let _ = fs::remove_file(&link);
        symlink(support::root().join("e2e"), link)?;
        let lab = Self { checkout, turn };
        lab.xtask(&["down", "--purge"])?;
        Ok(Some(lab))
    }

    /// Leaves everything as if the test had been killed.
    pub(crate) fn abandon(self) -> Result<()> {
        self.turn.unlock()?;
        std::mem::forget(self);
        Ok(())
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::at(&self.checkout)
    }

    pub(crate) fn state(&self) -> Result<State> {
        State::read(&self.layout()).context("there is no lab")
    }

    pub(crate) fn xtask(&self, args: &[&str]) -> Result<String> {
        // Without it the lab of the checkout around this one would be meant.
        ensure!(self.checkout.join("e2e/lab/Cargo.toml").is_file());
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let output = command
            .arg("lab")
            .args(args)
            .current_dir(&self.checkout)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "lab {args:?}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    }

    pub(crate) fn add(&self, name: &str, more: &[&str]) -> Result<Host> {
        let args = [&["host", "add", name, "--json"], more].concat();
        Ok(Host(serde_json::from_str(&self.xtask(&args)?)?))
    }

    pub(crate) fn status(&self) -> Result<String> {
        self.xtask(&["status"])
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let ended = self.xtask(&["down", "--purge"]);
        if let Err(error) = ended.and_then(|_| Ok(fs::remove_dir_all(&self.checkout)?)) {
            eprintln!("{} stays: {error:#}", self.checkout.display());
        }
    }
}

/// Where cargo puts what it builds.
fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.as_deref().map_or(Path::new("target"), Path::new);
    support::root().join(target)
}

/// A host, as it was printed.
pub(crate) struct Host(pub(crate) Value);

impl Host {
    fn hop(&self, way: &Value) -> Hop {
        let key = fs::read_to_string(self.0["privateKey"].as_str().unwrap()).unwrap();
        let pins = way["hostKeys"].as_array().unwrap().iter();
        let pins: Vec<_> = pins.map(|key| key.as_str().unwrap()).collect();
        Hop {
            address: way["address"].as_str().unwrap().to_owned(),
            port: u16::try_from(way["port"].as_u64().unwrap()).unwrap(),
            user: way["user"].as_str().unwrap().to_owned(),
            key: LoginKey::parse(&key).unwrap(),
            host_keys: HostKeys::parse(&pins).unwrap(),
        }
    }

    /// As it was said.
    pub(crate) fn target(&self) -> Target {
        let via = self.0["via"].as_array().unwrap().iter();
        Target {
            host: self.hop(&self.0),
            via: via.map(|way| self.hop(way)).collect(),
            escalation: Escalation::None,
        }
    }

    /// Without its jump hosts.
    pub(crate) fn straight(&self) -> Target {
        Target {
            via: Vec::new(),
            ..self.target()
        }
    }

    pub(crate) async fn enter(&self) -> Result<Session> {
        let session = connector().connect(&self.target()).await;
        session.with_context(|| format!("{}", self.0["name"]))
    }
}

pub(crate) fn connector() -> Connector {
    let patience = Limits::default().silence;
    let limits = Limits {
        connect: patience,
        login: patience,
        jump: patience,
        ..Limits::default()
    };
    // What the operator refuses to dial, a lab's hosts are not.
    Connector::new(limits, AddressRules::outside([]))
}
