// Dark and light, and what the page remembers of the user's choices.

function adoptTheme() {
  const theme = remembered("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}

/** Change between dark and light. */
function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remember("theme", theme);
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Keep a choice of the user for the next page; a frame without storage of its own forgets it. */
function remember(/** @type {string} */ name, /** @type {string} */ value) {
  try {
    localStorage.setItem(`insitu-${name}`, value);
  } catch {
    // nothing is kept
  }
}

/** The choice that the user made earlier. @param {string} name @returns {string|null} */
function remembered(name) {
  try {
    return localStorage.getItem(`insitu-${name}`);
  } catch {
    return null;
  }
}
