//! Builds what a lab with the operator in it consists of, before there is one.
//!
//! Invariant: nothing is started, and nothing outside of caches and `.lab/` is written.

use std::thread;

use anyhow::{Context as _, Result, anyhow};

use crate::{
    binaries::AGENT,
    cargo::{self, Build},
    debian::Tree,
    install::Operator,
    kubevirt,
    layout::Layout,
    packages, programs,
    progress::Progress,
    up::{self, UpOptions},
    worker,
};

/// Builds what [`crate::up`] and [`crate::install_operator`] need later, with what the processors have
/// left: all of it has the lowest priority. Go, cargo and Debian's installer work beside each other,
/// because each of them is idle now and then: Go while it links, the others while they fetch.
///
/// # Errors
/// When a build fails.
pub fn prepare(
    layout: &Layout,
    options: &UpOptions,
    operator: &Operator,
    progress: &Progress,
) -> Result<()> {
    let wanted = options.programs();
    thread::scope(|scope| {
        let ours = scope.spawn(|| least_important(|| build(layout, options, operator, progress)));
        let trees = scope.spawn(|| {
            least_important(|| match options.kubevirt {
                Some(_) => trees().try_for_each(|tree| tree.ensure(progress).map(drop)),
                None => Ok(()),
            })
        });
        let programs = scope.spawn(|| least_important(|| programs::ensure(&wanted, progress)));
        let panicked = |_| anyhow!("a build panicked");
        let programs = programs.join().map_err(panicked)?;
        ours.join().map_err(panicked)??;
        trees.join().map_err(panicked)??;
        let bins = programs?;
        // Of all of these.
        let images = scope
            .spawn(move || least_important(|| up::make_images(layout, options, &bins, progress)));
        images.join().map_err(panicked)?
    })
}

/// Linux counts the priority of each thread by itself, and children begin with their parent's.
fn least_important<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    rustix::process::nice(19).context("the priority cannot be lowered")?;
    work()
}

fn trees() -> impl Iterator<Item = &'static Tree<'static>> {
    [&kubevirt::TREE, &worker::TREE].into_iter()
}

/// All that is ours, with as few calls of cargo as there are ways of building.
fn build(
    layout: &Layout,
    options: &UpOptions,
    operator: &Operator,
    progress: &Progress,
) -> Result<()> {
    packages::ensure(&operator.packages(), progress)?;
    let init = match options.kubevirt.is_some() || options.player {
        true => worker::INIT,
        false => "",
    };
    for kind in [Build::Dev, Build::Release] {
        let mut programs = Vec::new();
        if operator.build == kind {
            programs.extend(operator.programs());
        }
        if options.build == kind {
            programs.push(AGENT);
        }
        if worker::INIT_BUILD == kind && !init.is_empty() {
            programs.push(init);
        }
        if !programs.is_empty() {
            cargo::build(layout, &programs, kind, progress)?;
        }
    }
    Ok(())
}
