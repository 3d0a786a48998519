//! What the user has chosen to see: the selected list, how each is sorted and scrolled, the help.

use std::collections::HashMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::table::{Table, Wish};

/// What the keys do, one a line.
pub const HELP: [(&str, &str); 9] = [
    ("Tab, Shift-Tab", "selects the next list, the one before"),
    ("s", "sorts it by the next column; after the last one, as recorded"),
    ("r", "reverses its order"),
    ("Down, Up, j, k", "scrolls it by a row"),
    ("Page Down, Page Up", "scrolls it by what is shown"),
    ("Home, End", "shows its first rows, its last"),
    ("?, h", "shows this, and hides it"),
    ("q, Escape, Ctrl-C", "leaves; the recording goes on"),
    ("", "Lists have the 200 largest at most; ▼ or ▲ is what one is sorted by."),
];

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It changed what is drawn.
    Changed,
    /// It means nothing here.
    Nothing,
    /// The user leaves.
    Left,
}

/// What is chosen. Lists are known by their names, for they come and go.
#[derive(Default)]
pub struct Browsing {
    selected: Option<&'static str>,
    wishes: HashMap<&'static str, Wish>,
    help: bool,
    /// Names and columns of the lists that were drawn.
    drawn: Vec<(&'static str, Vec<usize>)>,
}

impl Browsing {
    /// The help is to be drawn.
    pub fn help(&self) -> bool {
        self.help
    }

    /// These lists are drawn now.
    pub fn draws(&mut self, lists: &[Table]) {
        self.drawn = lists.iter().map(|list| (list.name(), list.places())).collect();
        if !self.drawn.iter().any(|(name, _)| Some(*name) == self.selected) {
            self.selected = self.drawn.first().map(|(name, _)| *name);
        }
    }

    /// How a list is to be seen, and whether it is the selected one.
    pub fn wish(&mut self, name: &'static str) -> (&mut Wish, bool) {
        (self.wishes.entry(name).or_default(), self.selected == Some(name))
    }

    /// Does what a key says.
    pub fn press(&mut self, key: KeyEvent) -> Outcome {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Outcome::Left,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return Outcome::Left,
            KeyCode::Tab => self.select(1),
            KeyCode::BackTab => self.select(-1),
            code => return self.change(code),
        }
        Outcome::Changed
    }

    /// Selects another of the lists that are drawn.
    fn select(&mut self, step: isize) {
        let names: Vec<&str> = self.drawn.iter().map(|(name, _)| *name).collect();
        let Some(at) = names.iter().position(|name| Some(*name) == self.selected) else { return };
        let next = (at as isize + step).rem_euclid(names.len() as isize);
        self.selected = Some(self.drawn[next as usize].0);
    }

    /// Sorts or scrolls the selected list.
    fn change(&mut self, code: KeyCode) -> Outcome {
        let selected = self.drawn.iter().find(|(name, _)| Some(*name) == self.selected);
        let Some((name, columns)) = selected else { return Outcome::Nothing };
        let wish = self.wishes.entry(name).or_default();
        match code {
            KeyCode::Char('s') => wish.sort_by_next(columns),
            KeyCode::Char('r') => wish.reverse(),
            KeyCode::Down | KeyCode::Char('j') => wish.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => wish.scroll(-1),
            KeyCode::PageDown => wish.scroll(wish.page()),
            KeyCode::PageUp => wish.scroll(-wish.page()),
            KeyCode::Home => wish.scroll(isize::MIN),
            KeyCode::End => wish.scroll(isize::MAX),
            _ => return Outcome::Nothing,
        }
        Outcome::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cell;
    use super::super::table::Column;
    use super::*;

    fn press(browsing: &mut Browsing, codes: &[KeyCode]) -> Outcome {
        codes.iter().map(|code| browsing.press(KeyEvent::from(*code))).last().unwrap()
    }

    fn lists(names: &[&'static str]) -> Vec<Table> {
        let column = |heading| Column { heading, width: 5 };
        let row = || vec![Cell::Count(1), Cell::Count(2)];
        names
            .iter()
            .map(|name| Table::new(name, (*name).into(), vec![column("a"), column("b")], vec![row()]))
            .collect()
    }

    #[test]
    fn a_list_that_is_gone_is_selected_no_more() {
        let mut browsing = Browsing::default();
        assert_eq!(press(&mut browsing, &[KeyCode::Tab, KeyCode::Char('s')]), Outcome::Nothing);
        browsing.draws(&lists(&["one", "two"]));
        assert!(browsing.wish("one").1);
        press(&mut browsing, &[KeyCode::Tab]);
        assert!(browsing.wish("two").1 && !browsing.wish("one").1);
        browsing.draws(&lists(&["one"]));
        assert!(browsing.wish("one").1);
        press(&mut browsing, &[KeyCode::BackTab]);
        assert!(browsing.wish("one").1);
    }

    #[test]
    fn escape_closes_the_help_before_it_leaves() {
        let mut browsing = Browsing::default();
        assert_eq!(press(&mut browsing, &[KeyCode::Char('?')]), Outcome::Changed);
        assert!(browsing.help());
        assert_eq!(press(&mut browsing, &[KeyCode::Esc]), Outcome::Changed);
        assert!(!browsing.help());
        assert_eq!(press(&mut browsing, &[KeyCode::Esc]), Outcome::Left);
    }
}
