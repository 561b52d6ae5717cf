// Nodes of a page, and the keys that a notebook must not hear.
// Names come from files and are hostile: they reach the page as text nodes and never as markup.

/** A node: attributes that are null or false are left out, `on...` listens, children may be null. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  // On every node: Notebook 7 looks for its shortcuts before an event gets here, from the focused
  // element upwards, and stops at the first that has one. On the outermost alone it comes too late.
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** The text of a node; one that stays as it is costs no layout. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Attributes of a node; those that stay as they are cost no layout. */
export function mark(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
}

/** What has the focus, also where the widget stands in a shadow tree. */
export function focusedIn(node) {
  return node.getRootNode().activeElement ?? document.activeElement;
}

/** Whether a key or a click comes with the key of commands: Ctrl, or Cmd on a Mac. */
export function isCommand(event) {
  return event.ctrlKey || event.metaKey;
}

/** Keeps keys from the notebook, whose shortcuts would act on the cell. Saving alone is meant for it.
 *
 * `outside` is the element around the widget, on which the notebook hears the keys that save;
 * `when` gets the function that presses them, and may call it later. */
export function keepKeys(root, outside, when = (save) => save()) {
  for (const kind of ["keydown", "keypress", "keyup"]) {
    root.addEventListener(kind, (event) => {
      event.stopPropagation();
      if (kind !== "keydown" || !isCommand(event) || event.key.toLowerCase() !== "s") return;
      event.preventDefault();
      const { key, code, keyCode, which, ctrlKey, metaKey } = event;
      const pressed = { key, code, keyCode, which, ctrlKey, metaKey, bubbles: true, cancelable: true };
      when(() => {
        // nbclassic hears no key at all while the focus is in a widget.
        const manager = window.Jupyter?.keyboard_manager;
        const deaf = manager && !manager.enabled;
        if (deaf) manager.enable();
        outside.dispatchEvent(new KeyboardEvent("keydown", pressed));
        if (deaf) manager.disable();
      });
    });
  }
}

/** The context of a canvas of so many pixels of the page, sharp on any screen and empty. */
export function canvasOf(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
