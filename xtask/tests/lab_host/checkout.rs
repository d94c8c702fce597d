//! A lab of a test: a folder that is a checkout by its looks, and hosts as they are printed.
//!
//! Invariant: it is taken down with its value, also when a test fails.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use lab::programs::KubernetesVersion;
use provider_static::session::{
    AddressRules, Connector, Escalation, Hop, HostKeys, Limits, LoginKey, Session, Target,
};
use serde_json::Value;
use tempfile::TempDir;
use testkit::programs::or_skip;

use crate::support;

/// A lab that ends with its value.
pub(crate) struct Lab {
    checkout: TempDir,
}

impl Lab {
    /// None where such hosts cannot run, after saying so.
    pub(crate) fn begin() -> Result<Option<Self>> {
        let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
        let able = match is_root {
            true => lab::hosts::is_prepared(KubernetesVersion::default()),
            false => Err(anyhow::anyhow!("it needs root")),
        };
        if or_skip(able)?.is_none() {
            return Ok(None);
        }
        let checkout = TempDir::new()?;
        symlink(support::root().join("e2e"), checkout.path().join("e2e"))?;
        Ok(Some(Self { checkout }))
    }

    pub(crate) fn xtask(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let output = command
            .arg("lab")
            .args(args)
            .current_dir(self.checkout.path())
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
        // After a success there is nothing to do.
        if let Err(error) = self.xtask(&["down"]) {
            eprintln!("{error:#}");
        }
    }
}

/// A host, as it was printed.
pub(crate) struct Host(pub(crate) Value);

impl Host {
    fn hop(&self, way: &Value) -> Hop {
        let key = std::fs::read_to_string(self.0["privateKey"].as_str().unwrap()).unwrap();
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
