//! `cargo xtask lab host …`: machines that are reached by SSH; the work is in `lab::hosts`.
//!
//! Invariant: what is printed is all that is needed to reach one, and standard output has nothing else.

use std::fmt::Write as _;

use anyhow::Result;
use clap::Subcommand;
use lab::{
    Layout,
    hosts::{self, Described, Options, Way},
    programs::KubernetesVersion,
    progress::Progress,
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a machine that nobody has made a node, and say how it is reached
    Add {
        /// Its name: a-z, 0-9 and -
        name: String,
        /// Version of its kubelet and kubeadm
        #[arg(long, default_value = "1.35")]
        version: KubernetesVersion,
        /// Leave out containerd, kubelet and kubeadm
        #[arg(long)]
        bare: bool,
        /// Make it a jump host, without programs of a node
        #[arg(long)]
        jump: bool,
        /// Let nobody in but who comes through this jump host
        #[arg(long, value_name = "JUMP HOST")]
        via: Option<String>,
        /// Put it behind the NAT of this site, whose gateway SITE-gateway is its jump host; all sites have
        /// the same private range
        #[arg(long)]
        site: Option<String>,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// End a machine; nothing of it is left, nor of a site whose last it was
    Remove {
        /// Its name
        name: String,
    },
    /// Show all of them
    List {
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
}

/// What is printed.
pub(crate) fn run(layout: &Layout, command: Command) -> Result<String> {
    match command {
        Command::Add {
            name,
            version,
            bare,
            jump,
            via,
            site,
            json,
        } => {
            let options = Options {
                version: (!bare).then_some(version),
                jump,
                via,
                site,
            };
            let host = hosts::add(layout, &name, &options, &Progress::new())?;
            match json {
                true => Ok(format!("{:#}\n", serde_json::to_value(&host)?)),
                false => shown(&host),
            }
        }
        Command::Remove { name } => {
            hosts::remove(layout, &name, &Progress::new())?;
            Ok(String::new())
        }
        Command::List { json } => {
            let all = hosts::list(layout)?;
            match json {
                true => Ok(format!("{:#}\n", serde_json::to_value(&all)?)),
                false => Ok(table(&all)),
            }
        }
    }
}

/// How to reach it, then its objects as YAML: comments first, so all of it can be applied.
fn shown(host: &Described) -> Result<String> {
    let mut text = String::new();
    let _ = writeln!(text, "# {}: {}", host.name, login(&host.way));
    for key in &host.way.host_keys {
        let _ = writeln!(text, "# host key     {key}");
    }
    for way in &host.via {
        let _ = writeln!(text, "# through      {}", login(way));
    }
    let _ = writeln!(text, "# private key  {}", host.private_key.display());
    let _ = writeln!(text, "# machine-id   {}", host.machine_id);
    for object in &host.objects {
        let _ = write!(text, "---\n{}", serde_saphyr::to_string(object)?);
    }
    Ok(text)
}

fn table(hosts: &[Described]) -> String {
    let mut text = String::new();
    for host in hosts {
        let via = host.via.first().map(login).unwrap_or_default();
        let life = if host.runs { "runs" } else { "dead" };
        let version = host.version.as_deref().unwrap_or("-");
        let _ = writeln!(
            text,
            "{:<24} {life}  {:<8} {:<26} {via}",
            host.name,
            version,
            login(&host.way)
        );
    }
    text
}

fn login(way: &Way) -> String {
    format!("{}@{}:{}", way.user, way.address, way.port)
}
