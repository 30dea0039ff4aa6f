/** What a model wrote, as Markdown: words, lists, tables, code. Nothing in it is HTML, nothing is fetched, and no address
 * in it leads anywhere: it is shown as text, since a document may have dictated it. */

import { Lexer, type Token, type Tokens } from 'marked';
import { Fragment, type ReactNode } from 'react';
import { visibleText } from './format';
import styles from './Markdown.module.css';

interface Props {
  text: string;
  /** Draws `[1]`: a citation. Left out: it stays as it is. */
  citation?: ((number: number) => ReactNode) | undefined;
}

export function Markdown({ text, citation }: Props) {
  return <div className={styles.text}>{blocks(new Lexer({ gfm: true }).lex(text), citation)}</div>;
}

type Cite = Props['citation'];

function blocks(tokens: readonly Token[], cite: Cite): ReactNode {
  return tokens.map((token, index) => <Fragment key={index}>{block(token, cite)}</Fragment>);
}

function block(token: Token, cite: Cite): ReactNode {
  switch (token.type) {
    case 'space':
      return null;
    case 'heading':
      return <h3>{inline(token.tokens, cite)}</h3>;
    case 'paragraph':
      return <p>{inline(token.tokens, cite)}</p>;
    case 'text':
      return inline(token.tokens ?? [token], cite);
    case 'code':
      return <pre>{token.text as string}</pre>;
    case 'blockquote':
      return <blockquote>{blocks(token.tokens ?? [], cite)}</blockquote>;
    case 'hr':
      return <hr />;
    case 'list': {
      const { ordered, start, items } = token as Tokens.List;
      const rows = items.map((item, index) => <li key={index}>{blocks(item.tokens, cite)}</li>);
      return ordered ? <ol start={start === '' ? 1 : start}>{rows}</ol> : <ul>{rows}</ul>;
    }
    case 'table': {
      const { header, rows } = token as Tokens.Table;
      return (
        <div className={styles.wide}>
          <table>
            <thead>
              <tr>
                {header.map((cell, index) => (
                  <th key={index}>{inline(cell.tokens, cite)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                <tr key={index}>
                  {row.map((cell, column) => (
                    <td key={column}>{inline(cell.tokens, cite)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    default:
      return <p>{cited(token.raw, cite)}</p>; // HTML, definitions of links: as they were written
  }
}

function inline(tokens: readonly Token[] | undefined, cite: Cite): ReactNode {
  return (tokens ?? []).map((token, index) => <Fragment key={index}>{word(token, cite)}</Fragment>);
}

function word(token: Token, cite: Cite): ReactNode {
  switch (token.type) {
    case 'strong':
      return <strong>{inline(token.tokens, cite)}</strong>;
    case 'em':
      return <em>{inline(token.tokens, cite)}</em>;
    case 'del':
      return <s>{inline(token.tokens, cite)}</s>;
    case 'codespan':
      return <code>{token.text as string}</code>;
    case 'br':
      return <br />;
    case 'escape':
      return token.text as string;
    case 'text':
      return token.tokens === undefined ? cited(token.text as string, cite) : inline(token.tokens, cite);
    default:
      return cited(token.raw, cite); // links, pictures and HTML: as they were written
  }
}

/** A text in which `[1]` is drawn as a citation. */
function cited(text: string, cite: Cite): ReactNode {
  if (cite === undefined) return visibleText(text);
  return text.split(/(\[\d{1,3}\])/).map((part, index) => {
    const number = /^\[(\d+)\]$/.exec(part)?.[1];
    return <Fragment key={index}>{number === undefined ? visibleText(part) : cite(Number(number))}</Fragment>;
  });
}
