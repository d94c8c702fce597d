//! Which Machines are replaced because they are lost: a share of the pool at a time, and none
//! while all nodes are silent together.
//!
//! Invariant: no more replacements are under way for their health than the share allows; what is
//! on its way counts, whatever made it necessary.

use api::int_or_percent::Round;
use api::{Machine, names};
use kube::ResourceExt;

use super::members::{self, Health, Limits};
use super::outage::{self, Outlook};
use super::sizing::{Member, Size, Sizing, Spread, size};
use super::template::Template;
use crate::controllers::node_pool::observed::Observed;

/// Why lost Machines are left alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Held {
    /// Every node of the tenant cluster went silent at the same time.
    AllSilent,
    /// As many as the share allows are being replaced.
    Share,
}

/// What is to be done about lost Machines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Verdict {
    /// These are deleted; others take their place.
    pub(super) replaced: Vec<String>,
    /// These are lost and stay for now.
    pub(super) kept: Vec<String>,
    /// Why.
    pub(super) held: Option<Held>,
}

/// Judges the Machines that stay so far, and sizes the pool without those that are replaced.
pub(super) fn judge(
    observed: &Observed,
    template: &Template,
    machines: &[&Machine],
    (target, spread, outlook): (Size, &Spread, &Outlook),
    limits: &Limits,
) -> (Verdict, Sizing) {
    let now = spread.now;
    let health = |m: &Machine| members::health(m, limits, now);
    // Those of a lost location are waited for: it may come back with them.
    let is_lost = |m: &&Machine| {
        let health = health(m);
        health.is_lost() && outlook.kept_until(template, m, health, now).is_none()
    };
    let mut lost: Vec<_> = machines.iter().copied().filter(is_lost).collect();
    // Those that the provider lost first: there is nothing left of them.
    lost.sort_by_key(|m| health(m) != Health::Failed);
    let mut verdict = Verdict::default();
    let silent = members::all_went_silent(&neighbours(observed), limits.not_ready);
    let target = Size {
        is_known: target.is_known && !silent,
        ..target
    };
    let budget = budget(observed);
    let resized = |verdict: &Verdict| {
        let of = (template, outlook);
        resize(of, machines, verdict, (target, spread), limits)
    };
    let mut sizing = resized(&verdict);
    // Who was to go because the pool shrinks may be to stay once another one is replaced: until all
    // are judged.
    while let Some(machine) = lost.iter().find(|m| {
        let name = m.name_any();
        let judged = [
            &verdict.replaced,
            &verdict.kept,
            &sizing.surplus,
            &sizing.outdated,
        ];
        !judged.iter().any(|names| names.contains(&name))
    }) {
        let name = machine.name_any();
        if silent && health(machine) != Health::Failed {
            verdict.held = Some(Held::AllSilent);
            verdict.kept.push(name);
            continue;
        }
        let stays = |m: &&&Machine| {
            let name = m.name_any();
            !verdict.replaced.contains(&name)
                && !sizing.surplus.contains(&name)
                && !sizing.outdated.contains(&name)
                && !outlook.is_stranded(template, m)
        };
        let rest: Vec<_> = machines.iter().filter(stays).collect();
        let coming = rest
            .iter()
            .filter(|m| matches!(health(m), Health::Coming(_)) && !outage::is_replacement(m))
            .count();
        // What a lost location makes necessary neither uses up nor widens the share.
        let made = sizing.create.len().saturating_sub(sizing.for_lost);
        // What no location may have is not on its way.
        let missing = sizing
            .possible
            .saturating_sub(rest.len() + sizing.create.len());
        if coming + made + missing >= budget {
            verdict.held.get_or_insert(Held::Share);
            verdict.kept.push(name);
            continue;
        }
        verdict.replaced.push(name);
        sizing = resized(&verdict);
    }
    // What scaling takes away anyway is no replacement.
    let Sizing {
        surplus, outdated, ..
    } = &sizing;
    verdict
        .kept
        .retain(|name| !surplus.contains(name) && !outdated.contains(name));
    (verdict, sizing)
}

fn resize(
    (template, outlook): (&Template, &Outlook),
    machines: &[&Machine],
    verdict: &Verdict,
    (target, spread): (Size, &Spread),
    limits: &Limits,
) -> Sizing {
    let stays = |m: &&&Machine| !verdict.replaced.contains(&m.name_any());
    let member = |m: &&Machine| Member {
        name: m.name_any(),
        location: template.location_of(m).map(|at| at.shown.clone()),
        // Nobody knows who is ready while the API does not answer, so no rollout goes on.
        updated: template.fits(m)
            || limits.answers_since.is_none()
            || outlook.is_outage(template, m),
        ready: members::is_ready(m),
        // On a node that is taken over pods run from the first moment on.
        fresh: !members::has_been_ready(m) && m.adopts().is_none(),
        silent: matches!(members::health(m, limits, spread.now), Health::Silent(..)),
        named: m
            .annotations()
            .contains_key(names::ANNOTATION_DELETE_MACHINE),
        // A pool that wants none waits for nobody.
        for_lost: target.replicas > 0 && outage::is_replacement(m),
        made: m
            .metadata
            .creation_timestamp
            .as_ref()
            .map_or(spread.now, |made| made.0),
    };
    let staying = machines.iter().filter(stays);
    let (stranded, members): (Vec<_>, Vec<_>) =
        staying.partition(|m| outlook.is_stranded(template, m));
    let members: Vec<_> = members.into_iter().map(member).collect();
    let spread = Spread {
        stranded: stranded.len(),
        ..spread.clone()
    };
    let target = Size {
        // Who is replaced goes with this plan.
        is_still: target.is_still && verdict.replaced.is_empty(),
        ..target
    };
    size(&members, target, &spread)
}

/// The share, as a number of Machines.
fn budget(observed: &Observed) -> usize {
    let spec = &observed.pool.spec;
    let share = spec.health.max_replaced.of(spec.replicas, Round::Up);
    share
        .and_then(|s| usize::try_from(s).ok())
        .unwrap_or_default()
}

/// All Machines of the tenant cluster, of whatever pool; those that go tell of the network, too.
fn neighbours(observed: &Observed) -> Vec<&Machine> {
    let uid = observed.cluster.as_ref().there();
    let uid = uid.map(|c| c.identity_uid().to_owned());
    let uid = uid.unwrap_or_default();
    let others = observed.others.iter().map(AsRef::as_ref);
    observed
        .owned()
        .chain(others)
        .filter(|m| m.spec.cluster_uid == uid)
        .collect()
}
