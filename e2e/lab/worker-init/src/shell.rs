//! Turns `runcmd` and `bootcmd` into one script of the shell, as cloud-init does. Pure.
//!
//! Invariant: lines share one shell (a `cd` counts for the next), one that fails does not end the
//! script, and arguments reach their program as they were written.

use std::fmt::Write as _;

use crate::user_data::CommandLine;

pub(crate) fn script(commands: &[CommandLine]) -> String {
    let mut script = String::from("#!/bin/sh\n");
    for command in commands {
        let line = match command {
            CommandLine::Shell(line) => line.clone(),
            CommandLine::Arguments(arguments) => {
                let quoted: Vec<_> = arguments.iter().map(|arg| quote(&arg.text())).collect();
                quoted.join(" ")
            }
        };
        // Writing to a String cannot fail.
        let _ = writeln!(script, "{line}");
    }
    script
}

fn quote(argument: &str) -> String {
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user_data::UserData;

    fn run(yaml: &str) -> String {
        let data = UserData::parse(&format!("#cloud-config\n{yaml}")).unwrap();
        let output = std::process::Command::new("sh")
            .args(["-c", &script(&data.runcmd)])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn arguments_reach_their_program_unchanged() {
        let yaml = r#"runcmd: [[printf, '%s|', "a b", "it's", '$HOME', 1, true, "*"]]"#;
        assert_eq!(run(yaml), "a b|it's|$HOME|1|true|*|");
    }

    #[test]
    fn lines_share_a_shell_and_a_failure_ends_nothing() {
        let yaml = "runcmd:\n- cd /usr\n- 'false'\n- [pwd]\n- x=1; echo $x";
        assert_eq!(run(yaml), "/usr\n1\n");
    }
}
