//! What was pasted at log-in: a bearer token, or a kubeconfig of whose current user one is taken.
//!
//! Invariant: what is wrong is said without a character of what was pasted; a token never shows itself.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use kube::config::Kubeconfig;
use serde_json::Value;

/// Most bytes of a token.
const MOST: usize = 16 << 10;

/// Most bytes of a kubeconfig.
const MOST_KUBECONFIG: usize = 128 << 10;

/// A bearer token.
#[derive(Clone, Eq, PartialEq)]
pub struct Token(String);

impl Token {
    /// Its characters, for the one header that they belong in.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// When it ends, where it is a JSON web token that says so. Nobody has checked its signature here: it only ends a
    /// session earlier.
    #[must_use]
    pub fn ends(&self) -> Option<Timestamp> {
        let payload = self.0.split('.').nth(1)?;
        let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        Timestamp::from_second(claims.get("exp")?.as_i64()?).ok()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[token]")
    }
}

/// Why there is no token in what was pasted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoToken {
    /// Nothing was pasted.
    #[error("paste a token: kubectl create token NAME makes one for a ServiceAccount")]
    Empty,
    /// It is longer than a token.
    #[error("this is longer than 16 KiB: paste the token alone")]
    TooLong,
    /// It is no token.
    #[error("this is no token: a token has letters, digits and - . _ ~ + / = only, in one line")]
    Form,
    /// It is a kubeconfig that cannot be read.
    #[error("this looks like a kubeconfig, but cannot be read as one: paste the token alone")]
    Kubeconfig,
    /// It is a kubeconfig whose user logs in by a program.
    #[error(
        "the user of this kubeconfig logs in by a program (exec): run that program, and paste the token that it prints"
    )]
    Exec,
    /// It is a kubeconfig whose user has a certificate, which a browser's page cannot show for you.
    #[error(
        "the user of this kubeconfig has a client certificate and no token: kubectl create token NAME makes one for a ServiceAccount"
    )]
    Certificate,
    /// It is a kubeconfig whose user has none of them.
    #[error("the current context of this kubeconfig leads to no user with a token")]
    NoUser,
}

/// The token in what was pasted.
///
/// # Errors
/// [`NoToken`].
pub fn read(pasted: &str) -> Result<Token, NoToken> {
    let pasted = pasted.trim();
    if pasted.is_empty() {
        return Err(NoToken::Empty);
    }
    if pasted.contains("users:") || pasted.contains("\"users\"") {
        return of_kubeconfig(pasted);
    }
    checked(pasted.strip_prefix("Bearer ").unwrap_or(pasted).trim())
}

fn checked(text: &str) -> Result<Token, NoToken> {
    if text.len() > MOST {
        return Err(NoToken::TooLong);
    }
    // RFC 6750, section 2.1.
    let is_of_token = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
    match !text.is_empty() && text.bytes().all(is_of_token) {
        true => Ok(Token(text.to_owned())),
        false => Err(NoToken::Form),
    }
}

fn of_kubeconfig(text: &str) -> Result<Token, NoToken> {
    // Nobody is known yet who pastes: what refers to itself could become very large.
    if text.len() > MOST_KUBECONFIG || (text.contains('&') && text.contains('*')) {
        return Err(NoToken::Kubeconfig);
    }
    let read = Kubeconfig::from_yaml(text).map_err(|_| NoToken::Kubeconfig)?;
    let Kubeconfig {
        current_context,
        contexts,
        auth_infos,
        ..
    } = read;
    let current = current_context.ok_or(NoToken::NoUser)?;
    let context = contexts.into_iter().find(|one| one.name == current);
    let user = context.and_then(|one| one.context?.user);
    let user = user.ok_or(NoToken::NoUser)?;
    let found = auth_infos.into_iter().find(|one| one.name == user);
    let info = found.and_then(|one| one.auth_info).ok_or(NoToken::NoUser)?;
    // It is read by its fields, because what holds it there shows itself to nobody.
    let fields = serde_json::to_value(&info).map_err(|_| NoToken::Kubeconfig)?;
    if let Some(token) = fields.get("token").and_then(Value::as_str) {
        return checked(token.trim());
    }
    let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    if has("exec") || has("auth-provider") {
        return Err(NoToken::Exec);
    }
    if has("client-certificate") || has("client-certificate-data") {
        return Err(NoToken::Certificate);
    }
    Err(NoToken::NoUser)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: b\ncontexts:\n- name: a\n  context: {{cluster: c, user: other}}\n\
- name: b\n  context: {{cluster: c, user: jane}}\nclusters: []\nusers:\n- name: other\n  user: {{token: not-this}}\n- name: jane\n  user: {user}\n"
        )
    }

    #[test]
    fn a_token_is_taken_as_it_is_or_from_the_current_user_of_a_kubeconfig() {
        for pasted in [
            "sesame.open-1",
            "  sesame.open-1\n",
            "Bearer sesame.open-1",
            &kubeconfig("{token: sesame.open-1}"),
        ] {
            assert_eq!(read(pasted).unwrap().expose(), "sesame.open-1");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_never_repeated() {
        for (pasted, error) in [
            (String::new(), NoToken::Empty),
            ("sesame open".to_owned(), NoToken::Form),
            ("sesame\r\nCookie: x".to_owned(), NoToken::Form),
            ("sesame<b>".to_owned(), NoToken::Form),
            ("s".repeat(20_000), NoToken::TooLong),
            ("users: [sesame".to_owned(), NoToken::Kubeconfig),
            ("users: []".to_owned(), NoToken::NoUser),
            (
                "a: &a [sesame]\nusers: [*a, *a]".to_owned(),
                NoToken::Kubeconfig,
            ),
            ("users: [&a [sesame],*a,*a]".to_owned(), NoToken::Kubeconfig),
            (
                kubeconfig("{client-certificate-data: sesame}"),
                NoToken::Certificate,
            ),
            (
                kubeconfig(
                    "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sesame}}",
                ),
                NoToken::Exec,
            ),
            (kubeconfig("{username: sesame}"), NoToken::NoUser),
            (kubeconfig("{token: \"ses ame\"}"), NoToken::Form),
        ] {
            let said = read(&pasted).unwrap_err();
            assert_eq!(said, error, "{pasted}");
            assert!(!said.to_string().contains("sesame"), "{said}");
        }
    }

    #[test]
    fn a_token_that_says_when_it_ends_is_believed_and_never_shown() {
        let payload = URL_SAFE_NO_PAD.encode(br#"{"exp":1795780800}"#);
        let token = read(&format!("eyJhbGciOiJub25lIn0.{payload}.c2ln")).unwrap();
        assert_eq!(token.ends().unwrap().to_string(), "2026-11-27T12:00:00Z");
        assert_eq!(read("opaque").unwrap().ends(), None);
        assert_eq!(format!("{token:?}"), "[token]");
    }
}
