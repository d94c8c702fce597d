//! What the clock does: servers are made, start and go.
//!
//! Invariant: each thing that comes or goes is in the journal, with the labels that it had.

use jiff::Timestamp;

use super::behaviour::Behaviour;
use super::contents::Contents;
use super::project::{Action, Address, Project};
use crate::journal::{Journal, event};
use crate::serve::later;

impl Contents {
    /// Brings about what was to happen by now.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let Contents {
            projects,
            behaviour,
            journal,
            next_id,
            ..
        } = self;
        for project in projects.values_mut() {
            settle(project, behaviour, journal, next_id, now);
        }
    }
}

fn settle(
    project: &mut Project,
    behaviour: &mut Behaviour,
    journal: &mut Journal,
    next_id: &mut u64,
    now: Timestamp,
) {
    // One thing leads to another.
    loop {
        let due = project.actions.values();
        let due = due.filter(|action| action.status == "running" && action.until <= now);
        let Some(action) = due.min_by_key(|action| action.until).cloned() else {
            return;
        };
        finish(project, behaviour, journal, next_id, &action);
    }
}

fn finish(
    project: &mut Project,
    behaviour: &mut Behaviour,
    journal: &mut Journal,
    next_id: &mut u64,
    action: &Action,
) {
    let mut error = None;
    let set = |project: &mut Project, status: &'static str| {
        if let Some(server) = project.servers.get_mut(&action.server) {
            server.status = status;
        }
    };
    match action.command {
        "create_server" if behaviour.creation_fails => {
            error = Some(("action_failed", "no host could be found"));
            set(project, "off");
        }
        "create_server" => {
            set(project, "starting");
            *next_id += 1;
            let start = Action {
                id: *next_id,
                command: "start_server",
                status: "running",
                until: later(action.until, behaviour.start_takes),
                error: None,
                server: action.server,
            };
            project.actions.insert(start.id, start);
        }
        "start_server" | "reset_server" => set(project, "running"),
        "delete_server" if behaviour.deletion_fails > 0 => {
            behaviour.deletion_fails -= 1;
            error = Some(("action_failed", "the server could not be deleted"));
            set(project, "running");
        }
        "delete_server" => remove_server(project, journal, action),
        _ => {}
    }
    if let Some(action) = project.actions.get_mut(&action.id) {
        action.status = if error.is_some() { "error" } else { "success" };
        action.error = error;
    }
}

/// It goes, and its addresses do where they are to.
fn remove_server(project: &mut Project, journal: &mut Journal, action: &Action) {
    let at = action.until;
    if let Some(server) = project.servers.remove(&action.server) {
        journal
            .events
            .push(event(at, "server", server.id, &server.labels, false));
    }
    let own = |address: &&Address| address.server == Some(action.server);
    let ids: Vec<_> = project
        .addresses
        .values()
        .filter(own)
        .map(|a| a.id)
        .collect();
    for id in ids {
        let goes = project.addresses.get(&id).is_some_and(|a| a.auto_delete);
        match goes {
            true => {
                if let Some(gone) = project.addresses.remove(&id) {
                    journal
                        .events
                        .push(event(at, "primary_ip", id, &gone.labels, false));
                }
            }
            false => {
                if let Some(address) = project.addresses.get_mut(&id) {
                    address.server = None;
                }
            }
        }
    }
}
