// Dragging names of an editor onto each other.

import { readable } from "./pairs.js";

/** What is dragged, over what it is, and what is said of it. */
export class Drag {
  constructor(editor) {
    this.editor = editor;
    this.held = null; // {side, number, group}: a name, or several of one side
    editor.root.addEventListener("dragend", () => this.end());
  }

  start(event, side, number) {
    const { editor } = this;
    const group = editor.group[side];
    this.held = { side, number, group: group.length > 1 && group.includes(number) ? [...group] : null };
    const names = (this.held.group || [number]).map((one) => editor.names[side][one]);
    event.dataTransfer.setData("text/plain", names.join("\n"));
    event.dataTransfer.effectAllowed = "link";
    event.stopPropagation();
    editor.root.classList.add("tsnb-w-dragging");
  }

  end() {
    this.leave();
    this.over = this.held = null;
    this.unhint();
    this.editor.root.classList.remove("tsnb-w-dragging");
  }

  leave() {
    if (this.over) this.over.classList.remove("tsnb-w-over", "tsnb-w-no");
  }

  /** Where names can be dropped; `find` says of a node which element they fall on and what is paired. */
  onto(body, find) {
    body.addEventListener("dragover", (event) => {
      const found = this.held && find(event.target, this.held);
      if (!found || this.over !== found.element) this.leave();
      this.over = found ? found.element : null;
      if (!found) {
        this.unhint();
        return;
      }
      event.preventDefault();
      event.stopPropagation();
      event.dataTransfer.dropEffect = "link";
      this.hint(found);
    });
    body.addEventListener("drop", (event) => {
      const found = this.held && find(event.target, this.held);
      if (!found) return;
      event.preventDefault();
      event.stopPropagation();
      this.editor.sendPair(...found.pair, found.key);
      this.end();
    });
  }

  /** What comes of a drop here is said before it. */
  hint({ element, pair }) {
    const { editor, held } = this;
    const fit = pair.some(Array.isArray) ? this.jointFit(pair, element) : editor.fit(1 - held.side, pair[1 - held.side]);
    const isMisfit = Boolean(fit) && fit[0] === "!";
    element.classList.toggle("tsnb-w-no", isMisfit);
    element.classList.toggle("tsnb-w-over", !isMisfit);
    const said = editor.fitText(fit);
    if (editor.message.textContent !== said) editor.say(said);
    this.hinted = said;
  }

  unhint() {
    if (this.hinted && this.editor.message.textContent === this.hinted) this.editor.say("");
    this.hinted = null;
  }

  /** How a drop of several fits, in the form of `fit`; asked for where it is not known. */
  jointFit(pair, element) {
    const answer = this.editor.joints.get(pair.join(" > "));
    if (answer) {
      const text = readable(answer.text);
      return answer.ok ? [answer.transforms[0], text].filter(Boolean).join(": ") : `!${text}`;
    }
    this.editor.askJoint(pair, () => {
      if (this.held && this.over === element) this.hint({ element, pair });
    });
    return undefined;
  }
}
