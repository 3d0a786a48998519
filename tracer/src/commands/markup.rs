//! Text in a page or in another document with tags.

use crate::terminal::clean;

/// Text between two tags, or in a value between double quotes.
pub fn escaped(text: &str) -> String {
    let text = clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// The begin of a page that runs nothing and loads nothing, up to its title.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n",
        escaped(title),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tag_and_no_control_character_gets_through() {
        let control = clean("\u{1b}");
        assert_eq!(
            escaped("</script><b a=\"&\u{1b}"),
            format!("&lt;/script&gt;&lt;b a=&quot;&amp;{control}")
        );
    }
}
