//! Brings the lab up: builds what is missing, starts the management host, waits for its node.
//!
//! Invariant: `up` on a running lab adds what is asked for and not there yet, images of tenant
//! versions, KubeVirt and storage, and changes nothing else; `up` on anything else begins by taking it down.

mod disk;
mod fresh;
mod options;
pub(crate) mod preload;
mod running;
mod start;
mod wanted;

use anyhow::{Result, bail};

use crate::{
    binaries,
    config::Cluster,
    kubectl::answers,
    layout::Layout,
    machines, packages,
    programs::{self, KubernetesVersion},
    progress::Progress,
    state::{self, State},
};

pub use options::UpOptions;
pub(crate) use preload::{load, make as make_images};

/// Brings the lab of this checkout up; returns at once when it is up already.
///
/// # Errors
/// When a program cannot be built or does not come up; the message ends with its log.
pub fn up(layout: &Layout, options: &UpOptions, progress: &Progress) -> Result<()> {
    let _lock = state::lock(layout, progress)?;
    if let Some(state) = State::read(layout)
        && state.is_up()
        && answers(layout)
    {
        return already_up(layout, options, state, progress);
    }
    crate::down::tear_down(layout, progress)?;
    disk::check(layout, progress)?;

    packages::ensure(&packages::RUNTIME, progress)?;
    if options.player && options.kubevirt.is_some() {
        bail!("virtual machines are KubeVirt's or are played by hosts: ask for one of them");
    }
    let bins = programs::ensure(&options.programs(), progress)?;
    binaries::build_agent(layout, options.build, progress)?;
    // Once more: what was built takes room, too.
    disk::check(layout, progress)?;
    preload::make(layout, options, &bins, progress)?;
    let started = fresh::prepare(layout, options)
        .and_then(|cluster| start::start(&cluster, options, &bins, progress));
    if started.is_err() {
        progress.note(
            "the lab did not come up; what runs of it stays for a look: \
                       `cargo xtask lab status`, `cargo xtask lab logs`, `cargo xtask lab down`",
        );
    }
    started
}

fn already_up(
    layout: &Layout,
    options: &UpOptions,
    mut state: State,
    progress: &Progress,
) -> Result<()> {
    if let (Some(wanted), Some(there)) = (options.kubevirt, state.kubevirt)
        && wanted != there
    {
        bail!("the lab has KubeVirt {there}, not {wanted}: run `cargo xtask lab down` first");
    }
    if options.player && !state.player {
        bail!(
            "the lab was brought up without machines that are played: run `cargo xtask lab down` first"
        );
    }
    if options.kubevirt.is_some() && state.player {
        machines::leave(layout, &mut state, progress)?;
    }
    if options.kubevirt.is_some() && state.kubevirt.is_none() {
        let versions = state.tenant_versions.iter().map(|version| version.parse());
        let versions = versions.collect::<Result<Vec<_>>>()?;
        let bins = programs::ensure(
            &binaries::wanted(&versions, options.kubevirt, false),
            progress,
        )?;
        preload::add_kubevirt(layout, &mut state, &bins, progress)?;
    }
    if options.has_storage() && !state.storage {
        let bins = programs::ensure(&binaries::wanted(&[], state.kubevirt, true), progress)?;
        preload::add_storage(layout, &mut state, &bins, progress)?;
    }
    let missing: Vec<KubernetesVersion> = options
        .tenant_versions
        .iter()
        .copied()
        .filter(|version| !state.tenant_versions.contains(&version.to_string()))
        .collect();
    if !missing.is_empty() {
        let bins = binaries::wanted(&missing, state.kubevirt, false);
        let bins = programs::ensure(&bins, progress)?;
        preload::add_versions(layout, &mut state, &missing, &bins, progress)?;
    }
    match changes(layout, &state) {
        Ok(changed) if changed.is_empty() => progress.note("the lab is up already"),
        Ok(changed) => progress.note(format!(
            "the lab is up, with another configuration than this checkout's (changed: {}): \
             `cargo xtask lab down && cargo xtask lab up` applies it",
            changed.join(", ")
        )),
        Err(error) => progress.note(format!(
            "the lab is up; whether its configuration is this checkout's is not known: {error:#}"
        )),
    }
    Ok(())
}

/// Names of the files and programs that would be different in a lab started now.
fn changes(layout: &Layout, state: &State) -> Result<Vec<String>> {
    let bins = programs::find(&binaries::wanted(&[], None, false))?;
    let cluster = Cluster {
        layout: layout.clone(),
        slot: state.slot,
    };
    let now = cluster.fingerprints(&binaries::paths(layout, &bins)?);
    let mut changed: Vec<String> = now
        .iter()
        .filter(|(name, print)| state.fingerprints.get(*name) != Some(*print))
        .map(|(name, _)| name.clone())
        .collect();
    changed.extend(
        state
            .fingerprints
            .keys()
            .filter(|name| !now.contains_key(*name))
            .cloned(),
    );
    Ok(changed)
}
