//! The scripts that run on a machine: fixed texts of this binary, in POSIX sh.
//!
//! | Script | What it does |
//! |---|---|
//! | [`FACTS`] | says what the machine is; changes nothing |
//! | [`CLAIM`] | writes whose machine it is, or says whose it is already |
//! | [`START`] | starts [`JOIN`] or [`RESET`] so that it outlives the connection |
//! | [`POLL`] | says how far that is |
//! | [`CLEAN`] | says what is left of a node |
//! | [`UPLOAD`] | takes a part of a file from standard input |
//!
//! Invariant: dash and busybox run them, each step can be repeated, and each script but the started ones prints one
//! line of JSON.

pub(crate) mod parameters;

pub use parameters::Parameters;

/// The line that ends a script on its way.
const END: &str = "#:end";
/// Reads parameters (one line) and the script (up to a line that says so) byte by byte, as POSIX has `read` do it,
/// so what follows is left to the script; then becomes the script. It says first that it is there, and as whom:
/// nothing is sent to a shell that is none.
pub const LOADER: &str = r##"sh -c 'printf "\ncovey-ready %s\n" "$(id -u)"; n=$(printf "\nx"); n=${n%x}; IFS= read -r parameters; script=; while IFS= read -r line; do case $line in "#:end") break;; esac; script=$script$line$n; done; eval "$script"'"##;
/// What the script finds, and nothing else of the login.
pub const CLEAN_ENVIRONMENT: &str =
    "env -i LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A script with what all of them use in front.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// For messages.
    pub name: &'static str,
    /// The whole text.
    pub text: &'static str,
}

macro_rules! script {
    ($name:literal, $($part:literal),+) => {
        Script {
            name: $name,
            text: concat!(include_str!("scripts/common.sh"), $(include_str!(concat!("scripts/", $part)),)+),
        }
    };
}

/// Says what the machine is.
pub const FACTS: Script = script!("facts", "facts.sh");
/// Writes whose machine it is.
pub const CLAIM: Script = script!("claim", "claim.sh");
/// Starts a script that outlives the connection.
pub const START: Script = script!("start", "worker.sh", "start.sh");
/// Says how far it is.
pub const POLL: Script = script!("poll", "worker.sh", "poll.sh");
/// Says what is left of a node.
pub const CLEAN: Script = script!("clean", "traces.sh", "sent.sh", "clean.sh");
/// Takes a part of a file.
pub const UPLOAD: Script = script!("upload", "upload.sh");
/// Makes the machine a node; started by [`START`].
pub const JOIN: Script = script!(
    "join",
    "worker.sh",
    "services.sh",
    "sent.sh",
    "install.sh",
    "join.sh"
);
/// Makes it none again; started by [`START`].
pub const RESET: Script = script!(
    "reset",
    "worker.sh",
    "services.sh",
    "traces.sh",
    "sent.sh",
    "reset.sh"
);

/// What [`LOADER`] reads: parameters and script.
#[must_use]
pub fn sent(script: &Script, parameters: &Parameters) -> String {
    format!("{}\n{}\n{END}\n", parameters.line(), script.text)
}

/// Parameters of [`START`]: what to start, for which Machine, for how long at most, and what it is told.
#[must_use]
pub fn start(worker: &Script, id: &str, seconds: u32, told: &Parameters) -> Parameters {
    let mut parameters = Parameters::default()
        .plain("operation", worker.name)
        .plain("id", id)
        .plain("seconds", seconds.to_string())
        .plain("script", worker.text)
        .secret("told", told.line());
    parameters.hide(told.secrets());
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_script_ends_itself_on_the_way() {
        for script in [FACTS, CLAIM, START, POLL, CLEAN, UPLOAD, JOIN, RESET] {
            let ends = script.text.lines().any(|line| line == END);
            assert!(!ends, "{}", script.name);
            assert!(script.text.is_ascii(), "{}", script.name);
        }
    }

    #[test]
    fn secrets_of_a_started_script_stay_secrets() {
        let told = Parameters::default().secret("token", "abcdef.0123456789abcdef");
        let parameters = start(&JOIN, "0a1b2c3d", 600, &told);
        let kept = parameters.secrets().redact(&parameters.line());
        assert!(!kept.contains("0123456789abcdef"));
    }
}
